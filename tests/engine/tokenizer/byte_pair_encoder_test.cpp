#include "engine/tokenizer/byte_pair_encoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.hpp"

namespace dgap::engine {
namespace {

using ::testing::ElementsAre;

/// Tokens a = 0, b = 1, c = 2, then the results of merges.
struct Toy {
  BytePairModel model;

  Toy() { model.pieces = {"a", "b", "c"}; }

  const std::string& piece(std::int32_t id) const {
    return model.pieces[static_cast<std::size_t>(id)];
  }

  std::int32_t add(std::int32_t left, std::int32_t right) {
    const std::string bytes = piece(left) + piece(right);
    const auto found = std::find(model.pieces.begin(), model.pieces.end(), bytes);
    const auto id = static_cast<std::int32_t>(found - model.pieces.begin());
    if (found == model.pieces.end()) model.pieces.push_back(bytes);
    model.merges.push_back({left, right, id, static_cast<std::uint32_t>(model.merges.size())});
    return id;
  }

  std::vector<std::int32_t> encode(std::string_view text) const {
    const BytePairEncoder encoder(model);
    BytePairEncoder::Workspace workspace;
    std::vector<std::int32_t> ids;
    encoder.encode(text, workspace, ids);
    return ids;
  }

  /// The definition: scan for the pair of lowest rank, merge its first occurrence, repeat.
  std::vector<std::int32_t> encode_slowly(std::string_view piece) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
    for (const Merge& merge : model.merges) ranks[{merge.left, merge.right}] = merge.rank;
    std::vector<std::int32_t> ids;
    for (const char c : piece) ids.push_back(c - 'a');
    for (;;) {
      std::size_t best = model.merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks.find({ids[i], ids[i + 1]});
        if (found != ranks.end() && found->second < best) best = found->second, at = i;
      }
      if (best == model.merges.size()) return ids;
      ids[at] = model.merges[best].result;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }
};

TEST(BytePairEncoder, LowestRankFirstThenLeftmost) {
  Toy toy;
  const std::int32_t bc = toy.add(1, 2), ab = toy.add(0, 1), aa = toy.add(0, 0);
  EXPECT_THAT(toy.encode("abc"), ElementsAre(0, bc));
  EXPECT_THAT(toy.encode("aab"), ElementsAre(0, ab));
  EXPECT_THAT(toy.encode("aaa"), ElementsAre(aa, 0));
  EXPECT_THAT(toy.encode("c"), ElementsAre(2));
}

// Llama 3's vocabulary has tokens that no merges lead to (ignore_merges).
TEST(BytePairEncoder, WholePiecesOnlyWhereAskedFor) {
  Toy toy;
  toy.add(0, 1);
  toy.model.pieces.push_back("cab");  // no merge leads to it
  toy.model.pieces.push_back("");     // text never becomes it
  EXPECT_THAT(toy.encode("cab"), ElementsAre(2, 3));
  toy.model.whole_pieces_first = true;
  EXPECT_THAT(toy.encode("cab"), ElementsAre(4));
  EXPECT_THAT(toy.encode("cabc"), ElementsAre(2, 3, 2));
}

TEST(BytePairEncoder, EqualsTheDefinitionOnRandomVocabularies) {
  base::Random random(3);
  for (int round = 0; round < 200; ++round) {
    Toy toy;  // with characters as units, text is taken apart where no token joins it
    if (round % 2 == 1) toy.model.units = BytePairModel::Units::characters;
    std::map<std::pair<std::int32_t, std::int32_t>, bool> used;
    for (int i = 0; i < 30; ++i) {
      const auto left = static_cast<std::int32_t>(random.below(toy.model.pieces.size()));
      const auto right = static_cast<std::int32_t>(random.below(toy.model.pieces.size()));
      if (!used.emplace(std::pair{left, right}, true).second) continue;
      if (toy.piece(left).size() + toy.piece(right).size() > 9) continue;
      toy.add(left, right);  // several merges may have the same result
    }
    for (int i = 0; i < 20; ++i) {
      std::string piece;
      for (std::uint64_t n = 1 + random.below(60); n > 0; --n)
        piece += static_cast<char>('a' + random.below(3));
      ASSERT_EQ(toy.encode(piece), toy.encode_slowly(piece)) << piece;
    }
  }
}

TEST(BytePairEncoder, FindsBytesWithoutToken) {
  const Toy toy;
  const BytePairEncoder encoder(toy.model);
  EXPECT_EQ(encoder.find_unencodable("abc"), std::string_view::npos);
  EXPECT_EQ(encoder.find_unencodable("abdc"), 2u);
}

TEST(BytePairEncoder, EqualRanksMergeFromTheLeft) {
  Toy toy;
  const std::int32_t bc = toy.add(1, 2), ab = toy.add(0, 1);
  toy.model.merges[1].rank = toy.model.merges[0].rank;
  EXPECT_THAT(toy.encode("abc"), ElementsAre(ab, 2));
  EXPECT_THAT(toy.encode("cbc"), ElementsAre(2, bc));
}

/// Characters: a, e with acute, space mark, mark + a; b and U+4E2D are not in the vocabulary.
Toy characters() {
  Toy toy;
  toy.model.units = BytePairModel::Units::characters;
  toy.model.pieces = {"a", "\xc3\xa9", "\xe2\x96\x81",
                      "\xe2\x96\x81"
                      "a",
                      "<unk>"};
  toy.model.merges = {{2, 0, 3, 0}};
  return toy;
}
constexpr const char* kUnknownText =
    "\xe2\x96\x81"
    "ab\xe4\xb8\xad\xc3\xa9";

TEST(BytePairEncoder, CharactersWithoutToken) {
  Toy toy = characters();
  toy.model.pieces.resize(4);
  EXPECT_EQ(BytePairEncoder(toy.model).find_unencodable(kUnknownText), 4u);
  toy = characters();
  toy.model.unknown = 4;
  EXPECT_EQ(BytePairEncoder(toy.model).find_unencodable(kUnknownText), std::string_view::npos);
  EXPECT_THAT(toy.encode(kUnknownText), ElementsAre(3, 4, 4, 1));
  toy.model.fuse_unknown = true;
  EXPECT_THAT(toy.encode(kUnknownText), ElementsAre(3, 4, 1));
  for (int byte = 0; byte < 256; ++byte)
    toy.model.byte_tokens[static_cast<std::size_t>(byte)] = 100 + byte;
  EXPECT_THAT(toy.encode(kUnknownText),
              ElementsAre(3, 100 + 'b', 100 + 0xe4, 100 + 0xb8, 100 + 0xad, 1));
}

// A piece is taken apart at space marks where no token crosses them, and nowhere else.
TEST(BytePairEncoder, TokensAcrossSpaceMarks) {
  Toy toy = characters();
  toy.model.pieces[4] = "a\xe2\x96\x81";
  toy.model.merges = {{0, 2, 4, 0}, {2, 0, 3, 1}};
  const std::string mark = "\xe2\x96\x81";
  EXPECT_THAT(toy.encode("a" + mark + "a" + mark + "a"), ElementsAre(4, 4, 0));
  EXPECT_THAT(toy.encode("\xc3\xa9" + mark + "a" + mark), ElementsAre(1, 2, 4));
}

// Work is counted, so that no clock decides: at most three candidates per byte, whatever the text.
TEST(BytePairEncoder, WorkIsLinearInOnePiece) {
  Toy toy;
  std::int32_t run = 0;
  for (int doubling = 0; doubling < 8; ++doubling) run = toy.add(run, run);  // a^2 ... a^256
  toy.add(0, 1), toy.add(1, 2), toy.add(2, 0);
  const BytePairEncoder encoder(toy.model);
  base::Random random(8);
  std::string letters;
  for (int i = 0; i < 1'000'000; ++i) letters += static_cast<char>('a' + random.below(3));
  for (const std::string& text : {std::string(1'000'000, 'a'), letters}) {
    const auto work = [&](std::size_t size) {
      BytePairEncoder::Workspace workspace;
      std::vector<std::int32_t> ids;
      encoder.encode(std::string_view(text).substr(0, size), workspace, ids);
      return static_cast<double>(workspace.candidates());
    };
    const double once = work(500'000), twice = work(1'000'000);
    EXPECT_LT(twice / once, 2.01);
    EXPECT_LE(twice, 3.0 * 1e6);
  }
}

}  // namespace
}  // namespace dgap::engine
