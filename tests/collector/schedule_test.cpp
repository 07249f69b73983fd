#include "collector/schedule.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "collector/plan.hpp"
#include "collector/sites.hpp"
#include "fake_engine.hpp"
#include "tests/corpus/corpus_folder.hpp"

namespace dgap::collector {
namespace {

using ::testing::ElementsAre;
using testing::FakeTokenizer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RecordingProgress;
using testing::TemporaryFolder;

TEST(SiteStarts, MidpointsOfEqualShares) {
  EXPECT_THAT(site_starts(1000, 100, 100, 4, 10), ElementsAre(200, 400, 600, 800));
  EXPECT_THAT(site_starts(1000, 100, 100, 1, 10), ElementsAre(500));
  EXPECT_THAT(site_starts(100, 100, 0, 4, 10), ElementsAre(0));
}

TEST(SiteStarts, ShortBooks) {
  EXPECT_THAT(site_starts(99, 100, 0, 4, 10), IsEmpty());
  EXPECT_THAT(site_starts(0, 1, 0, 4, 10), IsEmpty());
  // Too short to skip the front matter: the whole book is used.
  EXPECT_THAT(site_starts(140, 100, 50, 2, 10), ElementsAre(10, 30));
  EXPECT_THAT(site_starts(150, 100, 50, 2, 10), ElementsAre(50));
}

TEST(SiteStarts, DecodedTokensNeverOverlap) {
  for (std::int64_t tokens = 100; tokens < 400; tokens += 7) {
    const std::vector<std::int64_t> starts = site_starts(tokens, 100, 20, 9, 25);
    ASSERT_FALSE(starts.empty());
    EXPECT_LE(starts.back() + 100, tokens);
    for (std::size_t i = 1; i < starts.size(); ++i)
      EXPECT_GE(starts[i] - starts[i - 1], 25) << tokens;
  }
}

TEST(SharePasses, ContextsThatDoNotOverlapGrowOneDecode) {
  EXPECT_THAT(share_passes(std::vector{4096, 1024, 1024, 2048}, 256),
              ElementsAre(ElementsAre(1024, 2048, 4096)));
  EXPECT_THAT(share_passes(std::vector{100, 110, 120, 130}, 20),
              ElementsAre(ElementsAre(100, 120), ElementsAre(110, 130)));
  EXPECT_THAT(share_passes(std::vector{7}, 20), ElementsAre(ElementsAre(7)));
}

class ScheduleTest : public ::testing::Test {
 protected:
  ScheduleTest() { testing::write_corpus(folder_ / "corpus"); }
  Schedule schedule() { return make_schedule(config_, tokenizer_, progress_); }
  std::string refusal() {
    try {
      schedule();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "no error";
  }
  TemporaryFolder folder_;
  schemas::Config config_ = testing::small_config(folder_.path());
  FakeTokenizer tokenizer_{31, -1};
  RecordingProgress progress_;
};

TEST_F(ScheduleTest, OrderAndParts) {
  config_.trace.units_per_part = 3;
  const Schedule s = schedule();
  std::vector<std::string> order;
  for (const Pass& pass : s.passes)
    order.push_back(s.books[pass.book].book.name + "@" + std::to_string(pass.start));
  // needed = 30 tokens; book 20 has 400, so starts lie in [30, 370].
  EXPECT_THAT(order,
              ElementsAre("20@115", "20@285", "3@90", "3@210", "7@102", "7@247", "1@85", "1@195"));
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (const Part& part : s.parts) parts.emplace_back(part.first_pass, part.end_pass);
  using P = std::pair<std::size_t, std::size_t>;
  EXPECT_THAT(parts, ElementsAre(P(0, 3), P(3, 4), P(4, 6), P(6, 8)));  // no part holds two splits
  EXPECT_EQ(s.units, 8);
  EXPECT_EQ(s.books[0].tokens, 400);
  EXPECT_EQ(s.books[0].book.text_sha256, base::sha256_hex(testing::random_text(400, 1)));
}

TEST_F(ScheduleTest, PassesOfSeveralContextsStayWhole) {
  config_.corpus.context_lengths = {20, 40, 25};
  config_.trace.units_per_part = 4;
  const Schedule s = schedule();
  ASSERT_GE(s.passes.size(), 2u);
  EXPECT_THAT(s.passes[0].contexts, ElementsAre(20, 40));
  EXPECT_THAT(s.passes[1].contexts, ElementsAre(25));
  EXPECT_EQ(s.passes[0].start, s.passes[1].start);
  EXPECT_EQ(s.units, 24);
  std::int64_t units = 0;
  for (const Part& part : s.parts) {
    EXPECT_LE(part.units, 4);
    units += part.units;
  }
  EXPECT_EQ(units, 24);
  config_.trace.units_per_part = 1;  // a pass of two does not fit, and is taken whole
  EXPECT_EQ(schedule().parts.front().units, 2);
}

TEST_F(ScheduleTest, BosIsPartOfTheContext) {
  const FakeTokenizer with_bos(31, 30);
  const Schedule s = make_schedule(config_, with_bos, progress_);
  const std::vector<std::int32_t> book = with_bos.encode(testing::random_text(400, 1));
  const std::vector<std::int32_t> tokens = tokens_of(s.passes[0], book, with_bos.bos());
  ASSERT_EQ(tokens.size(), 30u);
  EXPECT_EQ(tokens[0], 30);
  EXPECT_EQ(tokens[1], book[s.passes[0].start]);
  EXPECT_EQ(tokens.back(), book[s.passes[0].start + 28]);
  EXPECT_EQ(tokens_of(s.passes[0], book, -1)[0], book[s.passes[0].start]);
  // 29 tokens of text are enough when BOS is the 30th.
  testing::write_text(folder_ / "corpus/test/1.txt", testing::random_text(29, 9));
  EXPECT_EQ(make_schedule(config_, with_bos, progress_).skipped_books, 0);
  EXPECT_THAT(
      refusal(),
      HasSubstr("split test: all 1 books are too short: the longest has 29 tokens, and 30"));
}

TEST_F(ScheduleTest, ShortBooksAreCounted) {
  testing::write_text(folder_ / "corpus/train/short.txt", "too short");
  EXPECT_EQ(schedule().skipped_books, 1);
  EXPECT_THAT(progress_.warnings_,
              ElementsAre(HasSubstr("1 of 5 books are shorter than the 30 tokens")));
}

TEST_F(ScheduleTest, TheSameTextInTwoSplits) {
  testing::write_text(folder_ / "corpus/test/copy.txt", testing::random_text(300, 2));
  EXPECT_THAT(refusal(), HasSubstr("copy.txt: has the same text as"));
  std::filesystem::rename(folder_ / "corpus/test/copy.txt", folder_ / "corpus/train/copy.txt");
  EXPECT_EQ(refusal(), "no error");
  EXPECT_THAT(progress_.warnings_, ElementsAre(HasSubstr("has the same text as")));
}

TEST_F(ScheduleTest, PlanCounts) {
  config_.corpus.context_lengths = {20, 40};
  engine::HyperParameters model;
  model.vocab_size = 40, model.hidden_size = 16, model.intermediate_size = 32,
  model.context_length = 100;
  model.layers = 2, model.heads = 2, model.kv_heads = 1, model.head_dim = 8;
  testing::write_text(folder_ / "corpus/train/short.txt", "too short");
  const Plan plan = plan_with(config_, tokenizer_, model, progress_);
  EXPECT_EQ(plan.books, 4);
  EXPECT_EQ(plan.skipped_books, 1);
  EXPECT_EQ(plan.units, 16);
  EXPECT_EQ(plan.steps, 160);
  EXPECT_EQ(plan.decode_rows, 480);
  EXPECT_EQ(plan.prefill_tokens, 8 * 29);  // 19 to the first unit, 10 more to the second
  EXPECT_EQ(plan.prefixes.rows, 8 * 29);
  EXPECT_EQ(plan.prefixes.attended, 8 * (19 * 20 / 2 + (30 + 39) * 10 / 2));
  EXPECT_EQ(plan.decode.rows, 160);
  EXPECT_EQ(plan.decode.attended, 8 * ((20 + 29) * 10 / 2 + (40 + 49) * 10 / 2));
  config_.precisions[1] = schemas::preset("uniform-K4V4");
  config_.precisions[1].family = "custom";
  config_.precisions[1].prefill = schemas::PrefillMode::quantized;
  EXPECT_EQ(plan_with(config_, tokenizer_, model, progress_).prefill_tokens, 2 * 8 * 29);
  EXPECT_EQ(plan.parts, 8);
  EXPECT_GT(plan.trace_bytes, 160 * 3 * 9 * 8);
  EXPECT_GT(plan.peak_memory_bytes, 4.0 * 40 * 16);
  model.context_length = 48;
  EXPECT_THROW(plan_with(config_, tokenizer_, model, progress_), base::UsageError);
}

}  // namespace
}  // namespace dgap::collector
