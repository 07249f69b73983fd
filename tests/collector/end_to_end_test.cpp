// The whole way with a real engine: a tiny model file, books, collect(), and the engine asked
// again.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "base/files.hpp"
#include "collector/collect.hpp"
#include "corpus_folder.hpp"
#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

double mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct RowsOfLogits : engine::LogitsSink {
  explicit RowsOfLogits(std::int64_t vocab_size) : vocab(vocab_size) {}
  void take(std::int64_t, std::int64_t rows, const float* logits, const float*) override {
    values.insert(values.end(), logits, logits + rows * vocab);
  }
  std::int64_t vocab;
  std::vector<float> values;
};

class EndToEnd : public ::testing::Test {
 protected:
  EndToEnd() {
    testing::write_corpus(folder_ / "corpus");
    testing::write_text(folder_ / "tiny.gguf", testing::tiny_gguf());
    config_ = testing::small_config(folder_.path());
    config_.model.path = (folder_ / "tiny.gguf").string();
    config_.model.compute = "f32";
    config_.corpus.context_lengths = {48, 64};
    config_.corpus.decode_steps = 12;
    config_.precisions = {schemas::preset("exact"), schemas::preset("K8V8"),
                          schemas::preset("K2V2"), schemas::preset("K1V1-R8")};
  }
  schemas::TracePart collected(const std::string& name) {
    config_.run.name = name;
    base::Progress silent;
    collect(config_, silent);
    return schemas::TraceSet(config_.run_directory() / "traces").read_split("");
  }
  TemporaryFolder folder_;
  schemas::Config config_;
};

TEST_F(EndToEnd, FewerBitsMoreDivergence) {
  const schemas::TracePart part = collected("a");
  EXPECT_EQ(part.units.size(), 16u);
  EXPECT_EQ(part.columns[0].kl, std::vector<float>(part.steps(), 0.0f));  // the reference itself
  EXPECT_LT(mean(part.columns[1].kl), 1e-3);
  EXPECT_GT(mean(part.columns[1].kl), 0.0);
  EXPECT_LT(mean(part.columns[1].kl), mean(part.columns[2].kl));
  EXPECT_LT(mean(part.columns[2].kl), mean(part.columns[3].kl));
  EXPECT_DOUBLE_EQ(part.precisions[0].bits_per_element_key, 16.0);
  // One bit, and an FP16 scale for each of a head's 16 channels.
  EXPECT_DOUBLE_EQ(part.precisions[3].bits_per_element_key, 2.0);
  EXPECT_GT(part.precisions[3].total_bits_per_element_key, 2.0);
}

TEST_F(EndToEnd, RowsAreTheDecodersOwn) {
  const schemas::TracePart part = collected("a");
  const auto decoder = engine::open_decoder(config_.model.path, "auto", "cpu", {.compute = "f32"});
  EXPECT_EQ(part.header.model_sha256, decoder->model().model_sha256);
  EXPECT_EQ(part.header.cpu_isa, decoder->cpu_isa());
  const schemas::TraceUnit& unit = part.units[3];
  const std::span<const std::int32_t> tokens =
      std::span(part.tokens).subspan(unit.first_token, unit.context + unit.steps);
  const auto reference = decoder->begin(unit.context + unit.steps, true);
  reference->append(tokens.first(unit.context - 1), nullptr);
  const auto fork = reference->fork(config_.precisions[2], unit.context - 1);
  RowsOfLogits exact(decoder->model().vocab_size), quantized(decoder->model().vocab_size);
  const std::span<const std::int32_t> consumed = tokens.subspan(unit.context - 1, unit.steps);
  reference->append(consumed, &exact);
  fork->append(consumed, &quantized);
  for (std::int64_t t = 0; t < unit.steps; ++t) {
    const std::int64_t step = unit.first_step + t;
    for (std::int64_t i = 0; i < part.top; ++i) {
      const std::int32_t id = part.columns[2].top_ids[step * part.top + i];
      EXPECT_NEAR(part.columns[2].top_logits[step * part.top + i],
                  quantized.values[t * quantized.vocab + id], 2e-3);
      EXPECT_NEAR(part.columns[2].top_reference_logits[step * part.top + i],
                  exact.values[t * exact.vocab + id], 2e-3);
    }
    EXPECT_NEAR(part.reference.target_logit[step],
                exact.values[t * exact.vocab + tokens[unit.context + t]], 2e-3);
  }
}

TEST_F(EndToEnd, StepByStepAgreesWithBlocks) {
  const schemas::TracePart blocked = collected("blocked");
  config_.decode.mode = "stepwise";
  const schemas::TracePart stepwise = collected("stepwise");
  for (std::size_t p = 0; p < config_.precisions.size(); ++p) {
    const double a = mean(blocked.columns[p].kl), b = mean(stepwise.columns[p].kl);
    EXPECT_NEAR(a, b, 0.02 * a + 1e-9) << config_.precisions[p].name;
  }
}

TEST_F(EndToEnd, SameBytesForAnyThreadCount) {
  config_.precisions = {schemas::preset("K2V2"), schemas::preset("K1V1-R8")};
  std::string first;
  for (const int threads : {1, 2, 3}) {
    fs::remove_all(config_.run_directory());
    config_.run.threads = threads;
    collected("a");
    const std::string bytes = base::read_file(config_.run_directory() / "traces/part-00000.h5");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads;
  }
}

TEST_F(EndToEnd, KeepsToTheMemoryBudget) {
  config_.model.memory_budget = static_cast<std::int64_t>(plan(config_).peak_memory_bytes) + 1;
  EXPECT_GT(collected("enough").steps(), 0);
  config_.model.memory_budget -= 2;
  EXPECT_THROW(collected("short"), base::UsageError);
  EXPECT_FALSE(fs::exists(config_.run_directory() / "traces"));
}

TEST_F(EndToEnd, PlanKnowsWhatIsCollected) {
  const Plan plan = collector::plan(config_);
  const schemas::TracePart part = collected("a");
  EXPECT_EQ(plan.units, static_cast<std::int64_t>(part.units.size()));
  EXPECT_EQ(plan.steps, part.steps());
  EXPECT_EQ(plan.books, 4);
  EXPECT_EQ(plan.parts, static_cast<std::int64_t>(
                            schemas::TraceSet(config_.run_directory() / "traces").parts()));
}

}  // namespace
}  // namespace dgap::collector
