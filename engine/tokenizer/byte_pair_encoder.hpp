#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/flat_table.hpp"
#include "engine/tokenizer/piece_cache.hpp"

namespace dgap::engine {

/// Two tokens that become one. Lower ranks merge first.
struct Merge {
  std::int32_t left = 0, right = 0, result = 0;
  std::uint32_t rank = 0;
};

/// What byte-pair encoding needs to know.
struct BytePairModel {
  /// By id: the text that a token stands for; empty where text never becomes it. Distinct.
  std::vector<std::string> pieces;
  /// Ids of `pieces`; the text of a result is that of its parts. Pairs are distinct.
  std::vector<Merge> merges;
  /// A piece that is a token as a whole becomes that token, even where merges do not lead to it
  /// (`ignore_merges` of Hugging Face's tokenizers).
  bool whole_pieces_first = false;

  /// Pieces start as one token per byte, or as one per character.
  enum class Units { bytes, characters };
  Units units = Units::bytes;
  /// Ids from here on are characters that take part in merges without being tokens: what is left of
  /// them has no token. -1: there are none.
  std::int32_t first_unlisted = -1;
  /// What stands for a unit without token: a token for each of its bytes (-1 in none or all of
  /// them), else `unknown` (-1 for none), one for each unit or one for a stretch of them.
  std::array<std::int32_t, 256> byte_tokens = filled(-1);
  std::int32_t unknown = -1;
  bool fuse_unknown = false;

 private:
  static constexpr std::array<std::int32_t, 256> filled(std::int32_t value) {
    std::array<std::int32_t, 256> array{};
    for (std::int32_t& element : array) element = value;
    return array;
  }
};

/// Byte-pair encoding: a piece starts as its units, and the adjacent pair of lowest rank (the
/// leftmost, where several are equal) is merged until no pair has a rank. Immutable.
class BytePairEncoder {
 public:
  /// `model` outlives this object.
  explicit BytePairEncoder(const BytePairModel& model);

  /// Memory of one thread, reused from piece to piece.
  class Workspace {
   public:
    /// Pairs that were candidates for merging so far: what time is proportional to, but for a
    /// logarithm.
    std::uint64_t candidates() const { return candidates_; }

   private:
    friend class BytePairEncoder;
    struct Symbol {
      std::int32_t token;
      std::uint32_t length;  // bytes; 0 once merged into its left neighbour
      std::uint32_t previous_length;
    };
    struct Candidate {
      std::uint32_t rank, begin;  // begin: byte in the piece, and index of the left symbol
      std::uint32_t length;       // of both symbols together: tells whether they are still the same
      std::int32_t result;
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    std::uint64_t candidates_ = 0;
    PieceCache cache_;
  };

  /// Appends the tokens of a piece (valid UTF-8, where units are characters). All its units have
  /// tokens (see find_unencodable), and it is shorter than 2^32 bytes. O(n log n).
  void encode(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& out) const;

  /// Index of the first unit that no token stands for; npos when there is none.
  std::size_t find_unencodable(std::string_view text) const;

 private:
  struct Rule {
    std::uint32_t rank;
    std::int32_t result;
  };

  std::size_t unit_length(char first) const;
  std::int32_t token_of_unit(std::string_view unit) const;
  bool is_listed(std::int32_t token) const;
  void start(std::string_view piece, Workspace& workspace) const;
  void merge(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& out) const;
  bool add_candidate(Workspace& workspace, std::uint32_t begin) const;
  std::size_t end_of_part(std::string_view piece, std::size_t begin) const;
  void encode_part(std::string_view part, Workspace& workspace,
                   std::vector<std::int32_t>& out) const;
  void put(std::string_view piece, const Workspace& workspace,
           std::vector<std::int32_t>& out) const;
  void index_units();
  void index_whole_pieces();
  void index_cuts();

  const BytePairModel& model_;
  std::array<std::int32_t, 256> byte_units_{};  // tokens of units of one byte; -1 for none
  FlatTable<std::int32_t> long_units_;          // of more, by their hash
  bool encodes_everything_ = true;
  bool cuts_ = false;
  /// Whether a token has a character with this first byte (kMarkRow: a space mark) right after a
  /// character with that last byte.
  static constexpr std::size_t kMarkRow = 256;
  std::array<std::array<bool, 256>, 257> joined_{};
  FlatTable<Rule> rules_;                 // by pair
  FlatTable<std::int32_t> whole_pieces_;  // pieces that become one token, by their hash
};

}  // namespace dgap::engine
