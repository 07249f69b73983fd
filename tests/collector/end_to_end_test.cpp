// The whole way with a real engine: a tiny model file, books, collect(), and the engine asked
// again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "collector/collect.hpp"
#include "collector/memory.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/calibrated.hpp"
#include "schemas/scheme/calibration.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/corpus/corpus_folder.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"
#include "tests/testing/message_of.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
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
  /// Enough for that many precisions side by side, and no more.
  std::int64_t budget_for(std::size_t at_once) const {
    const auto weights = engine::open_weights(config_.model.path, "auto");
    const auto tokenizer = engine::open_tokenizer(config_.model.path, "auto");
    const MemoryNeed need =
        memory_need(config_, tokenizer->vocab_size(), weights->parameters(), at_once);
    return static_cast<std::int64_t>(need.total()) + 1;
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

TEST_F(EndToEnd, CachesAreCalibratedOnceAndRecorded) {
  config_.precisions = {schemas::preset("kvquant-nuq2"), schemas::preset("kvquant-nuq4-1p")};
  config_.calibration = {.windows = 3, .tokens = 40};
  const schemas::TracePart part = collected("a");
  EXPECT_GT(mean(part.columns[0].kl), mean(part.columns[1].kl));
  EXPECT_GT(mean(part.columns[1].kl), 0.0);
  const auto recorded = schemas::recorded_schemes(config_);
  EXPECT_EQ(recorded[0].calibration_sha256.size(), 64u);
  EXPECT_EQ(recorded[0].calibration, "");
  EXPECT_THAT(part.precisions[0].scheme_json, ::testing::HasSubstr(recorded[0].calibration_sha256));
  const auto file = schemas::calibration_file(config_, config_.precisions[1]);
  EXPECT_EQ(schemas::read_calibration(file, "").tokens, 3 * (40 - 1));

  // The same text and model give the same file; another one does not go with the traces.
  const std::string bytes = base::read_file(file);
  fs::remove(file);
  fs::remove_all(config_.run_directory() / "stages");
  collected("a");
  EXPECT_EQ(base::read_file(file), bytes);
  schemas::Calibration other = schemas::read_calibration(file, "");
  other.layers[0].value.reads.back() += 0.5f;
  testing::write_text(file, schemas::encode_calibration(other));
  fs::remove_all(config_.run_directory() / "stages");
  EXPECT_THAT(dgap::testing::message_of([&] { collected("a"); }),
              ::testing::HasSubstr("another calibration"));
}

// Forks of one exact prefix, with keys before RoPE among them, and a prefill of its own.
TEST_F(EndToEnd, SameBytesForAnyThreadCountAndMemoryBudget) {
  config_.precisions = {schemas::preset("K2V2"), schemas::preset("vllm-fp8"),
                        schemas::preset("kvquant-nuq3-1p"), schemas::preset("uniform-K4V4")};
  config_.calibration = {.windows = 2, .tokens = 30};
  config_.precisions[0].family = config_.precisions[3].family = "custom";
  config_.precisions[0].key_before_rope = true;
  config_.precisions[3].prefill = schemas::PrefillMode::quantized;
  const auto hashes_of_parts = [this] {
    fs::remove_all(config_.run_directory());
    collected("a");
    std::map<std::string, std::string> hashes;
    for (const auto& entry : fs::directory_iterator(config_.run_directory() / "traces"))
      if (entry.path().extension() == ".h5")
        hashes[entry.path().filename().string()] = base::sha256_hex(base::read_file(entry.path()));
    return hashes;
  };
  const auto first = hashes_of_parts();
  EXPECT_GT(first.size(), 1u);
  for (const auto& [threads, at_once] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
    config_.run.threads = threads;
    config_.model.memory_budget = budget_for(static_cast<std::size_t>(at_once));
    ASSERT_EQ(plan(config_).precisions_at_once, at_once);
    EXPECT_EQ(hashes_of_parts(), first) << threads << " threads, " << at_once << " at once";
  }
}

TEST_F(EndToEnd, KeepsToTheMemoryBudget) {
  config_.model.memory_budget = budget_for(1);
  EXPECT_LE(plan(config_).peak_memory_bytes, static_cast<double>(config_.model.memory_budget));
  EXPECT_GT(collected("enough").steps(), 0);
  config_.model.memory_budget -= 2;
  EXPECT_THAT(testing::message_of([&] { collected("short"); }),
              AllOf(HasSubstr("model.memory_budget: "), HasSubstr("lower decode.block")));
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
