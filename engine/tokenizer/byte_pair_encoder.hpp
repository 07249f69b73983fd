#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/flat_table.hpp"

namespace dgap::engine {

/// Two tokens that become one; its place in the list is its rank, and lower ranks merge first.
struct Merge {
  std::int32_t left, right, result;
};

/// Byte-pair encoding: a piece starts as one token per byte, and the adjacent pair of lowest rank
/// (the leftmost, where several are equal) is merged until no pair has a rank. Immutable.
class BytePairEncoder {
 public:
  /// `tokens`: bytes of every token; `plain[id]`: whether text may become it. Plain tokens and the
  /// pairs of `merges` are distinct; merges hold ids of plain tokens, and the bytes of a result are
  /// those of its parts. `whole_pieces_first`: see PreTokenizer. `tokens` outlives this object.
  BytePairEncoder(const std::vector<std::string>& tokens, const std::vector<bool>& plain,
                  const std::vector<Merge>& merges, bool whole_pieces_first);

  /// Memory of one thread, reused from piece to piece.
  class Workspace {
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
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// Appends the tokens of a piece. All its bytes have tokens (see find_unencodable), and it is
  /// shorter than 2^32 bytes. O(n log n).
  void encode(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& out) const;

  /// Index of the first byte that no token stands for; npos when there is none.
  std::size_t find_unencodable(std::string_view text) const;

 private:
  struct Rule {
    std::uint32_t rank;
    std::int32_t result;
  };

  void merge(std::string_view piece, Workspace& workspace, std::vector<std::int32_t>& out) const;
  bool add_candidate(Workspace& workspace, std::uint32_t begin) const;
  void index_whole_pieces(const std::vector<bool>& plain, bool all);

  std::array<std::int32_t, 256> byte_tokens_{};
  bool every_byte_has_a_token_ = true;
  FlatTable<Rule> rules_;                 // by pair
  FlatTable<std::int32_t> whole_pieces_;  // pieces that become one token, by their hash
  const std::vector<std::string>& tokens_;
};

}  // namespace dgap::engine
