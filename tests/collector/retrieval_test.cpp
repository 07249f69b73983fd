// Retrieval prompts beside books: from the configuration to a trace, with a real engine.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "collector/collect.hpp"
#include "corpus/vocabulary.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/corpus/corpus_folder.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::collector {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string sentences(int seed) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "Nobody had told her what number " + std::to_string(seed) + " meant to them. ";
  return text;
}

class RetrievalCorpus : public ::testing::Test {
 protected:
  RetrievalCorpus() {
    int seed = 1;
    for (const char* book : {"train/a", "train/b", "validation/c", "test/d"})
      testing::write_text(folder_ / "corpus" / (std::string(book) + ".txt"), sentences(seed++));
    testing::write_text(folder_ / "tiny.gguf", testing::tiny_gguf());
    config_ = testing::small_config(folder_.path());
    config_.model.path = (folder_ / "tiny.gguf").string();
    config_.model.compute = "f32";
    config_.precisions = {schemas::preset("K1V1-R8")};
    config_.corpus.retrieval = {12, 5, 700, {"passkey", "multi_key", "count"}};
  }
  schemas::TracePart collected() {
    base::Progress silent;
    collect(config_, silent);
    return schemas::TraceSet(config_.run_directory() / "traces").read_split("");
  }
  TemporaryFolder folder_;
  schemas::Config config_;
};

TEST_F(RetrievalCorpus, PromptsAreUnitsWhoseStepsAreTheAnswer) {
  const schemas::TracePart part = collected();
  const auto tokenizer = engine::open_tokenizer(config_.model.path, "auto");
  std::map<std::string, int> kinds;
  std::set<std::string> texts, books;
  for (const schemas::TraceUnit& unit : part.units) {
    if (unit.source != "retrieval") {
      EXPECT_EQ(unit.steps, config_.corpus.decode_steps);
      continue;
    }
    ++kinds[unit.split + "/" + unit.domain];
    books.insert(unit.book);
    texts.insert(unit.text_sha256);
    EXPECT_LE(unit.context + unit.steps, 700);
    const std::span<const std::int32_t> ids =
        std::span(part.tokens).subspan(unit.first_token, unit.context + unit.steps);
    const std::string answer = tokenizer->decode(ids.last(unit.steps));
    const std::string prompt = tokenizer->decode(ids.first(unit.context));
    const auto digits = answer.find_first_not_of("0123456789");
    EXPECT_EQ(digits, unit.domain == "count" ? 2 : answer.npos) << answer;
    EXPECT_EQ(prompt.find(answer) == prompt.npos, unit.domain == "count");
  }
  const std::map<std::string, int> expected = {
      {"train/passkey", 4},      {"train/multi_key", 4},      {"train/count", 4},
      {"validation/passkey", 2}, {"validation/multi_key", 2}, {"validation/count", 1}};
  EXPECT_EQ(kinds, expected);
  EXPECT_EQ(texts.size(), 17u);
  EXPECT_EQ(books, (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(std::ssize(part.step_target), part.steps());
}

TEST_F(RetrievalCorpus, ThePlanCountsThem) {
  const Plan plan = collector::plan(config_);
  const schemas::TracePart part = collected();
  EXPECT_EQ(plan.units, std::ssize(part.units));
  EXPECT_EQ(plan.steps, part.steps());
}

TEST_F(RetrievalCorpus, IsTheSameForAnyThreadCountAndResumes) {
  config_.run.threads = 1;
  const schemas::TracePart one = collected();
  std::filesystem::remove(config_.run_directory() / "traces/part-00004.h5");
  config_.run.threads = 2;
  const schemas::TracePart two = collected();
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_EQ(one.columns[0].kl, two.columns[0].kl);
  config_.run.seed = 9;
  config_.run.name = "other";
  EXPECT_NE(collected().tokens, one.tokens);
}

TEST_F(RetrievalCorpus, SaysWhatIsMissing) {
  config_.corpus.retrieval.context = 64;
  EXPECT_THROW(collected(), base::FailedError);
  config_.corpus.retrieval.context = 700;
  testing::write_text(folder_ / "corpus/validation/c.txt", testing::random_text(600, 8));
  try {
    collected();
    ADD_FAILURE();
  } catch (const base::FailedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("corpus.retrieval.validation: the texts of that split"));
  }
}

}  // namespace
}  // namespace dgap::collector
