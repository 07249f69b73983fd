#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/half.hpp"
#include "base/sha256.hpp"
#include "base/stop.hpp"
#include "base/version.hpp"
#include "collector/collect_with.hpp"
#include "fake_engine.hpp"
#include "schemas/results/results.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/columns.hpp"
#include "tests/corpus/corpus_folder.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;
using schemas::TracePart;
using ::testing::ElementsAre;
using testing::FakeDecoder;
using testing::FakeTokenizer;
using ::testing::HasSubstr;
using testing::RecordingProgress;
using testing::TemporaryFolder;

constexpr std::int64_t kVocab = 61, kHidden = 5;
const schemas::TraceSelection kEverything{{}, true, true, true};

class CollectTest : public ::testing::Test {
 protected:
  CollectTest() { testing::write_corpus(folder_ / "corpus"); }

  void collect(const std::function<void(FakeDecoder&)>& prepare = {}) {
    progress_ = {};
    decoder_ = nullptr;
    const auto open_decoder = [&] {
      auto decoder = std::make_unique<FakeDecoder>(width_, kHidden);
      if (prepare) prepare(*decoder);
      decoder_ = decoder.get();
      return decoder;
    };
    const auto open_tokenizer = [] { return std::make_unique<FakeTokenizer>(kVocab, 60); };
    const auto at_once = [this](const engine::Tokenizer&) { return at_once_; };
    collect_with(config_, {open_tokenizer, open_decoder, at_once}, progress_);
  }
  std::string refusal(const std::function<void(FakeDecoder&)>& prepare = {}) {
    try {
      collect(prepare);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "no error";
  }
  fs::path traces() const { return config_.run_directory() / "traces"; }
  TracePart all() const { return schemas::TraceSet(traces()).read_split("", kEverything); }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(traces())) {
      if (entry.path().filename() != ".lock") {
        contents[entry.path().filename().string()] = base::read_file(entry.path());
      }
    }
    return contents;
  }

  TemporaryFolder folder_;
  schemas::Config config_ = testing::small_config(folder_.path());
  std::int64_t width_ = kVocab;
  std::size_t at_once_ = 3;
  RecordingProgress progress_;
  FakeDecoder* decoder_ = nullptr;  // null unless it was opened; gone afterwards
};

/// Everything about one row, the slow way.
struct Row {
  explicit Row(std::vector<float> z)
      : logits(std::move(z)), order(logits.size()), rank(logits.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });
    double sum = 0.0, mass = 0.0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x) - logits[order[0]]);
    lse = logits[order[0]] + std::log(sum);
    before.resize(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = static_cast<std::int32_t>(i);
      before[order[i]] = mass;
      const double p = std::exp(logits[order[i]] - lse);
      mass += p, entropy -= p * std::log(p);
    }
  }
  std::vector<float> logits;
  std::vector<std::int32_t> order, rank;
  std::vector<double> before;
  double lse = 0.0, entropy = 0.0;
};

Row row_after(std::span<const std::int32_t> history, const schemas::Scheme* scheme,
              std::int64_t fork_length) {
  std::vector<float> logits;
  for (std::int32_t v = 0; v < kVocab; ++v) {
    logits.push_back(testing::fake_logit(history, scheme, fork_length, v));
  }
  return Row(std::move(logits));
}

void expect_reference(const schemas::ReferenceColumns& c, std::int64_t t, std::int32_t target,
                      int top, double alpha_max, const Row& row) {
  EXPECT_NEAR(c.lse[t], row.lse, 1e-12);
  EXPECT_NEAR(c.entropy[t], row.entropy, 1e-6);
  EXPECT_EQ(c.target_logit[t], row.logits[target]);
  for (int i = 0; i < top; ++i) {
    EXPECT_EQ(c.top_ids[t * top + i], row.order[i]);
    EXPECT_EQ(c.top_logits[t * top + i], row.logits[row.order[i]]);
  }
  std::vector<std::int32_t> candidates;
  for (const std::int32_t id : row.order) {
    if (row.before[id] < alpha_max) candidates.push_back(id);
  }
  const std::int64_t first = c.candidate_first[t];
  ASSERT_EQ(c.candidate_first[t + 1] - first, static_cast<std::int64_t>(candidates.size()));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(c.candidate_ids[first + i], candidates[i]);
    EXPECT_EQ(c.candidate_logits[first + i], row.logits[candidates[i]]);
  }
}

void expect_precision(const TracePart& part, std::size_t p, std::int64_t t, std::int32_t target,
                      const Row& reference, const Row& row) {
  const schemas::PrecisionColumns& c = part.columns[p];
  const int top = part.top;
  double kl = 0.0;
  for (std::int64_t v = 0; v < kVocab; ++v) {
    const double difference = (reference.logits[v] - reference.lse) - (row.logits[v] - row.lse);
    kl += std::exp(reference.logits[v] - reference.lse) * difference;
  }
  EXPECT_NEAR(c.lse[t], row.lse, 1e-12);
  EXPECT_NEAR(c.entropy[t], row.entropy, 1e-6);
  EXPECT_EQ(c.target_logit[t], row.logits[target]);
  EXPECT_NEAR(c.kl[t], kl, 1e-6 * std::max(1.0, kl));
  for (int i = 0; i < top; ++i) {
    const std::int32_t id = row.order[i];
    EXPECT_EQ(c.top_ids[t * top + i], id);
    EXPECT_EQ(c.top_logits[t * top + i], row.logits[id]);
    EXPECT_EQ(c.top_reference_logits[t * top + i], reference.logits[id]);
    EXPECT_NEAR(c.top_reference_mass_before[t * top + i], reference.before[id], 1e-12);
  }
  const schemas::ReferenceColumns& r = part.reference;
  for (std::int64_t i = r.candidate_first[t]; i < r.candidate_first[t + 1]; ++i) {
    EXPECT_EQ(c.candidate_ranks[i], row.rank[r.candidate_ids[i]]);
    EXPECT_EQ(c.candidate_logits[i], row.logits[r.candidate_ids[i]]);
  }
}

/// Every column of every step follows from the definition of the twin decode.
void expect_by_definition(const TracePart& part, const schemas::Config& config) {
  for (const schemas::TraceUnit& unit : part.units) {
    const std::span<const std::int32_t> tokens =
        std::span(part.tokens).subspan(unit.first_token, unit.context + unit.steps);
    for (std::int64_t i = 0; i < unit.steps; ++i) {
      const std::int64_t t = unit.first_step + i;
      const auto history = tokens.first(unit.context + i);  // the last one is consumed by this step
      const std::int32_t target = tokens[unit.context + i];
      const Row reference = row_after(history, nullptr, 0);
      expect_reference(part.reference, t, target, part.top, config.trace.alpha_max, reference);
      for (std::size_t p = 0; p < config.precisions.size(); ++p) {
        const bool own = config.precisions[p].prefill == schemas::PrefillMode::quantized;
        const Row row = row_after(history, &config.precisions[p], own ? 0 : unit.context - 1);
        expect_precision(part, p, t, target, reference, row);
      }
      if (::testing::Test::HasFailure()) {
        FAIL() << unit.book << " context " << unit.context << " step " << i;
      }
    }
  }
}

TEST_F(CollectTest, ColumnsByDefinition) {
  collect();
  const TracePart part = all();
  EXPECT_EQ(part.units.size(), 8u);
  EXPECT_EQ(part.steps(), 80);
  expect_by_definition(part, config_);
  EXPECT_EQ(*std::max_element(part.columns[2].kl.begin(), part.columns[2].kl.end()),
            0.0f);  // `exact`
  EXPECT_EQ(progress_.total_, 240);
  EXPECT_EQ(progress_.done_, 240);
}

TEST_F(CollectTest, HeaderUnitsAndSizes) {
  collect();
  const schemas::TraceSet set(traces());
  EXPECT_EQ(set.parts(), 4u);
  EXPECT_THAT(set.precisions(), ElementsAre("K2V2", "K1V1-R32", "exact"));
  const TracePart part = set.read(0);
  const std::string yaml = schemas::to_trace_yaml(config_);
  EXPECT_EQ(part.config_yaml, yaml);
  EXPECT_EQ(part.header.run_id, base::sha256_hex(yaml));
  EXPECT_EQ(part.header.producer, "dgap " + std::string(base::version()));
  EXPECT_EQ(part.header.model_sha256, "model-sha");
  EXPECT_EQ(part.header.tokenizer_sha256, "tokenizer-sha");
  EXPECT_EQ(part.header.vocab_size, kVocab);
  EXPECT_EQ(part.header.decode_mode, "blocked");
  EXPECT_EQ(part.units[0].book, "20");
  EXPECT_EQ(part.units[0].split, "train");
  EXPECT_EQ(part.units[0].source, "pg19");
  EXPECT_EQ(part.units[0].text_sha256, base::sha256_hex(testing::random_text(400, 1)));
  EXPECT_EQ(part.tokens[0], 60);  // BOS
  EXPECT_EQ(part.top, 9);
  EXPECT_DOUBLE_EQ(part.precisions[0].bits_per_element_key, 2.0);
  EXPECT_DOUBLE_EQ(part.precisions[0].total_bits_per_element_key, 8.0 * (250 + 29) / 1000.0);
  EXPECT_THAT(part.precisions[1].scheme_json, HasSubstr("\"K1V1-R32\""));
}

TEST_F(CollectTest, SeveralContexts) {
  config_.corpus.context_lengths = {40, 20, 25};
  int forked = 0, begun = 0;
  collect([&](FakeDecoder& decoder) {
    decoder.on_rows = [&] { forked = decoder.forked, begun = decoder.begun; };
  });
  const TracePart part = all();
  EXPECT_EQ(part.units.size(), 24u);
  EXPECT_EQ(begun, 16);  // 20 and 40 share a pass
  EXPECT_EQ(forked, 24 * 3);
  expect_by_definition(part, config_);
}

TEST_F(CollectTest, PaddedOutputMatrix) {
  collect();
  const TracePart narrow = all();
  fs::remove_all(config_.run_directory());
  width_ = kVocab + 7;
  collect();
  const TracePart padded = all();
  EXPECT_EQ(padded.header.vocab_size, kVocab);
  EXPECT_EQ(padded.columns[0].kl, narrow.columns[0].kl);
  EXPECT_EQ(padded.columns[0].candidate_ranks, narrow.columns[0].candidate_ranks);
  fs::remove_all(config_.run_directory());
  width_ = kVocab - 1;
  EXPECT_THAT(refusal(), HasSubstr("the tokenizer has 61 tokens and the model only 60 logits"));
}

TEST_F(CollectTest, SmallVocabularyLimitsTheTop) {
  config_.trace.top = 0;
  config_.window.cap = 100;
  collect();
  EXPECT_EQ(all().top, kVocab);
}

TEST_F(CollectTest, FullTracesSayTheSameAsCompactOnes) {
  collect();
  const TracePart compact = all();
  fs::remove_all(config_.run_directory());
  config_.trace.logits = "full";
  config_.trace.hidden = true;
  collect();
  TracePart full = all();
  ASSERT_EQ(full.reference.logits.size(), 80u * kVocab);
  for (std::int64_t t = 0; t < full.steps(); ++t) {
    const schemas::TraceUnit& unit = full.units[full.step_unit[t]];
    const std::int32_t consumed = full.tokens[unit.first_token + full.step_position[t]];
    for (std::int64_t d = 0; d < kHidden; ++d) {
      ASSERT_EQ(full.columns[1].hidden[t * kHidden + d],
                base::to_half(FakeDecoder::hidden_value(consumed, d)));
    }
  }
  statistics::recompute_columns(full, config_.trace.alpha_max);
  for (std::size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(full.columns[p].lse, compact.columns[p].lse);
    EXPECT_EQ(full.columns[p].kl, compact.columns[p].kl);
    EXPECT_EQ(full.columns[p].entropy, compact.columns[p].entropy);
    EXPECT_EQ(full.columns[p].top_ids, compact.columns[p].top_ids);
    EXPECT_EQ(full.columns[p].top_reference_mass_before,
              compact.columns[p].top_reference_mass_before);
    EXPECT_EQ(full.columns[p].candidate_ranks, compact.columns[p].candidate_ranks);
  }
  EXPECT_EQ(full.reference.candidate_ids, compact.reference.candidate_ids);
  EXPECT_EQ(full.reference.lse, compact.reference.lse);
}

TEST_F(CollectTest, SameBytesForAnyThreadCount) {
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 3}) {
    config_.run.threads = threads;
    fs::remove_all(config_.run_directory());
    collect();
    if (first.empty()) first = files();
    EXPECT_EQ(files(), first) << threads;
  }
  EXPECT_EQ(first.size(), 5u);
}

TEST_F(CollectTest, StepwiseDecodesOneTokenAtATime) {
  collect();
  const TracePart blocked = all();
  fs::remove_all(config_.run_directory());
  config_.decode.mode = "stepwise";
  int calls = 0;
  collect([&](FakeDecoder& decoder) { decoder.on_rows = [&] { calls = decoder.stepwise_calls; }; });
  EXPECT_EQ(calls, 8 * 4 * 3);  // units, decodes, blocks of 4, 4 and 2 rows
  const TracePart stepwise = all();
  EXPECT_EQ(stepwise.header.decode_mode, "stepwise");
  EXPECT_EQ(stepwise.columns[0].kl, blocked.columns[0].kl);
}

// The decoder stops in the middle, as if killed, at every part's boundary and between.
TEST_F(CollectTest, ResumesToTheSameBytes) {
  collect();
  const auto whole = files();
  const auto record = base::read_file(config_.run_directory() / "stages/collect.json");
  const std::int64_t rows_per_part = 2 * 10 * 4;
  for (const std::int64_t stop_at :
       {std::int64_t{1}, rows_per_part - 1, rows_per_part, rows_per_part + 1, 2 * rows_per_part + 7,
        4 * rows_per_part - 1}) {
    fs::remove_all(config_.run_directory());
    EXPECT_THROW(collect([&](FakeDecoder& decoder) {
                   decoder.on_rows = [&decoder, stop_at] {
                     if (decoder.rows >= stop_at) throw std::runtime_error("killed");
                   };
                 }),
                 std::runtime_error);
    EXPECT_FALSE(fs::exists(traces() / "index.json"));
    EXPECT_FALSE(fs::exists(config_.run_directory() / "stages/collect.json"));
    testing::write_text(traces() / "part-00003.h5.partial", "left over");
    const auto before = files();
    collect();
    EXPECT_EQ(files(), whole) << stop_at;
    EXPECT_EQ(base::read_file(config_.run_directory() / "stages/collect.json"), record);
    const auto kept = static_cast<std::int64_t>(before.size()) - 1;
    EXPECT_EQ(progress_.total_, (4 - kept) * 60);
    EXPECT_EQ(progress_.done_, progress_.total_);
  }
}

TEST_F(CollectTest, ASignalKeepsFinishedParts) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      collect([&](FakeDecoder& decoder) {
        decoder.on_rows = [&] {
          if (decoder.rows > 100) base::request_stop();
        };
      });
    } catch (const base::InterruptedError& error) {
      status = static_cast<int>(error.code());
    }
    std::_Exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_TRUE(fs::exists(traces() / "part-00000.h5"));
  EXPECT_FALSE(fs::exists(traces() / "part-00001.h5"));
  EXPECT_FALSE(fs::exists(traces() / "part-00001.h5.partial"));
  collect();
  EXPECT_THAT(progress_.infos_, ElementsAre("1 of 4 parts are there already"));
  EXPECT_EQ(schemas::TraceSet(traces()).steps(), 80);
}

TEST_F(CollectTest, WhatIsDoneIsNotDoneAgain) {
  collect();
  collect();
  EXPECT_EQ(decoder_, nullptr);
  EXPECT_THAT(progress_.infos_, ElementsAre("collect: done already"));
  config_.training.epochs += 1;  // no business of collecting
  collect();
  EXPECT_EQ(decoder_, nullptr);
  fs::remove(traces() / "index.json");
  config_.training.epochs -= 1;
  collect();  // only the index is made again
  EXPECT_EQ(decoder_, nullptr);
  EXPECT_EQ(schemas::TraceSet(traces()).parts(), 4u);
}

TEST_F(CollectTest, DamagedPartsAreCollectedAgain) {
  collect();
  const auto whole = files();
  std::string bytes = base::read_file(traces() / "part-00002.h5");
  bytes.resize(bytes.size() / 2);
  testing::write_text(traces() / "part-00002.h5", bytes);
  collect();
  EXPECT_THAT(progress_.warnings_, ElementsAre(HasSubstr("the part is collected again")));
  EXPECT_EQ(progress_.total_, 60);
  EXPECT_EQ(files(), whole);
}

TEST_F(CollectTest, PartsOfAnotherConfigurationAreNotOverwritten) {
  collect();
  const auto whole = files();
  config_.corpus.decode_steps = 11;
  EXPECT_THAT(
      refusal(),
      HasSubstr("part-00000.h5: was collected with another configuration; use another run.name"));
  EXPECT_EQ(decoder_, nullptr);
  config_.corpus.decode_steps = 10;
  fs::remove_all(config_.run_directory() / "stages");
  testing::write_text(folder_ / "corpus/train/20.txt", testing::random_text(400, 99));
  EXPECT_THAT(refusal(), HasSubstr("part-00000.h5: was collected from other texts"));
  EXPECT_EQ(base::read_file(traces() / "part-00003.h5"), whole.at("part-00003.h5"));
}

TEST_F(CollectTest, OneProcessPerRun) {
  int ready[2], leave[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(leave), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    bool told = false;
    collect([&](FakeDecoder& decoder) {
      decoder.on_rows = [&] {
        if (std::exchange(told, true)) return;
        char c = 'x';
        if (::write(ready[1], &c, 1) != 1 || ::read(leave[0], &c, 1) != 1) std::_Exit(1);
      };
    });
    std::_Exit(0);
  }
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  EXPECT_THAT(refusal(),
              HasSubstr("traces: is being written by process " + std::to_string(child) + " on "));
  EXPECT_EQ(decoder_, nullptr);
  ASSERT_EQ(::write(leave[1], &c, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(refusal(), "no error");
  EXPECT_EQ(decoder_, nullptr);
  EXPECT_EQ(schemas::TraceSet(traces()).parts(), 4u);
}

TEST_F(CollectTest, NaNNamesWhereItIs) {
  const std::string message =
      refusal([](FakeDecoder& decoder) { decoder.poison_row = 10; });  // block 1, K1V1-R32
  EXPECT_THAT(message, HasSubstr("20.txt, prefix of 20 tokens from "));
  EXPECT_THAT(message, HasSubstr("steps from 0, row 2: K1V1-R32: a logit is not finite"));
  EXPECT_THAT(files(), ::testing::IsEmpty());
  EXPECT_THAT(refusal([](FakeDecoder& decoder) { decoder.poison_row = 1; }),
              HasSubstr("row 1: a reference row has NaN"));
}

TEST_F(CollectTest, AQuantisedPrefillIsAPassOfItsOwn) {
  config_.precisions[1].prefill = schemas::PrefillMode::quantized;
  int begun = 0, begun_quantized = 0, forked = 0;
  collect([&](FakeDecoder& decoder) {
    decoder.on_rows = [&] {
      begun = decoder.begun, begun_quantized = decoder.begun_quantized, forked = decoder.forked;
    };
  });
  EXPECT_EQ(begun_quantized, begun);
  EXPECT_EQ(forked, 8 * 2);  // units, the two other precisions
  expect_by_definition(all(), config_);
}

TEST_F(CollectTest, FewerPrecisionsAtATimeGiveTheSameBytes) {
  config_.corpus.context_lengths = {40, 20, 25};
  config_.precisions[1].prefill = schemas::PrefillMode::quantized;
  config_.trace.logits = "full";
  config_.trace.hidden = true;
  collect();
  const auto together = files();
  for (const std::size_t at_once : {1, 2}) {
    fs::remove_all(config_.run_directory());
    at_once_ = at_once;
    int begun = 0, begun_quantized = 0;
    collect([&](FakeDecoder& decoder) {
      decoder.on_rows = [&] { begun = decoder.begun, begun_quantized = decoder.begun_quantized; };
    });
    EXPECT_EQ(files(), together) << at_once;
    EXPECT_EQ(begun, 16);  // passes: the exact prefix serves all groups
    EXPECT_EQ(begun_quantized, 16);
    EXPECT_EQ(progress_.done_, progress_.total_);
    EXPECT_THAT(progress_.infos_,
                ElementsAre("model.memory_budget leaves room for " + std::to_string(at_once) +
                            " of 3 precisions at a time"));
  }
}

TEST_F(CollectTest, WhatIsNotCollected) {
  config_ = testing::small_config(folder_.path());
  config_.corpus.context_lengths = {100'000};
  config_.corpus.decode_steps = 2;
  testing::write_text(folder_ / "corpus/train/20.txt", testing::random_text(100'100, 1));
  testing::write_text(folder_ / "corpus/test/1.txt", testing::random_text(100'100, 2));
  testing::write_text(folder_ / "corpus/validation/7.txt", testing::random_text(100'100, 3));
  EXPECT_THAT(refusal(), HasSubstr("100000 + 2 - 1 tokens are more than the model's 100000"));
}

}  // namespace
}  // namespace dgap::collector
