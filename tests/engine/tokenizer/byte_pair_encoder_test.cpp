#include "engine/tokenizer/byte_pair_encoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.hpp"

namespace dgap::engine {
namespace {

using ::testing::ElementsAre;

/// Tokens a = 0, b = 1, c = 2, then the results of `merges`.
struct Toy {
  std::vector<std::string> tokens{"a", "b", "c"};
  std::vector<bool> plain{true, true, true};
  std::vector<Merge> merges;

  std::int32_t add(std::int32_t left, std::int32_t right) {
    const std::string bytes =
        tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
    std::int32_t id = 0;
    while (id < static_cast<std::int32_t>(tokens.size()) &&
           tokens[static_cast<std::size_t>(id)] != bytes)
      ++id;
    if (id == static_cast<std::int32_t>(tokens.size())) {
      tokens.push_back(bytes);
      plain.push_back(true);
    }
    merges.push_back({left, right, id});
    return id;
  }

  std::vector<std::int32_t> encode(std::string_view piece, bool whole_pieces_first = false) const {
    const BytePairEncoder encoder(tokens, plain, merges, whole_pieces_first);
    BytePairEncoder::Workspace workspace;
    std::vector<std::int32_t> ids;
    encoder.encode(piece, workspace, ids);
    return ids;
  }

  /// The definition: scan for the pair of lowest rank, merge its first occurrence, repeat.
  std::vector<std::int32_t> encode_slowly(std::string_view piece) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
    for (std::size_t rank = 0; rank < merges.size(); ++rank)
      ranks[{merges[rank].left, merges[rank].right}] = rank;
    std::vector<std::int32_t> ids;
    for (const char c : piece) ids.push_back(c - 'a');
    for (;;) {
      std::size_t best = merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks.find({ids[i], ids[i + 1]});
        if (found != ranks.end() && found->second < best) best = found->second, at = i;
      }
      if (best == merges.size()) return ids;
      ids[at] = merges[best].result;
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

TEST(BytePairEncoder, WholePiecesOnlyWhereAskedFor) {
  Toy toy;
  toy.add(0, 1);
  toy.tokens.push_back("cab");  // no merge leads to it
  toy.plain.push_back(true);
  toy.tokens.push_back("bb");  // not plain: text never becomes it
  toy.plain.push_back(false);
  EXPECT_THAT(toy.encode("cab", false), ElementsAre(2, 3));
  EXPECT_THAT(toy.encode("cab", true), ElementsAre(4));
  EXPECT_THAT(toy.encode("bb", true), ElementsAre(1, 1));
}

TEST(BytePairEncoder, EqualsTheDefinitionOnRandomVocabularies) {
  base::Random random(3);
  for (int round = 0; round < 200; ++round) {
    Toy toy;
    std::map<std::pair<std::int32_t, std::int32_t>, bool> used;
    for (int i = 0; i < 30; ++i) {
      const auto left = static_cast<std::int32_t>(random.below(toy.tokens.size()));
      const auto right = static_cast<std::int32_t>(random.below(toy.tokens.size()));
      if (!used.emplace(std::pair{left, right}, true).second) continue;
      if (toy.tokens[static_cast<std::size_t>(left)].size() +
              toy.tokens[static_cast<std::size_t>(right)].size() >
          9)
        continue;
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
  const BytePairEncoder encoder(toy.tokens, toy.plain, toy.merges, false);
  EXPECT_EQ(encoder.find_unencodable("abc"), std::string_view::npos);
  EXPECT_EQ(encoder.find_unencodable("abdc"), 2u);
}

}  // namespace
}  // namespace dgap::engine
