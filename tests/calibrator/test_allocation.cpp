// Bit allocation: its arithmetic, and all of it on a tiny model.
#include <gmock/gmock.h>
#include <tbb/global_control.h>

#include <cmath>

#include "base/error.hpp"
#include "base/files.hpp"
#include "calibrator/allocation/allocate.hpp"
#include "calibrator/allocation/estimators.hpp"
#include "calibrator/allocation/plots.hpp"
#include "calibrator/allocation/sensitivity.hpp"
#include "schemas/results/allocations.hpp"
#include "tests/corpus/corpus_folder.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"
#include "tests/testing/message_of.hpp"

namespace dgap::calibrator {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

BitSpace space_of(const char* preset, int layers, int kv_heads) {
  BitSpace space(schemas::preset(preset), layers, kv_heads);
  for (const bool value : {false, true}) {
    space.set_width(value, kBaseBits, 1.25);
    for (const int bits : {2, 4, 8}) space.set_width(value, bits, bits + 0.25);
  }
  return space;
}

std::vector<Upgrade> random_upgrades(const BitSpace& space, base::Random& random) {
  std::vector<Upgrade> upgrades;
  for (std::size_t part = 0; part < space.size(); ++part) {
    for (const int bits : {2, 4, 8}) upgrades.push_back({part, bits, random.normal()});
  }
  return upgrades;
}

TEST(BitSpace, CountsBitsAsTheModelHasThem) {
  const BitSpace space = space_of("K1V1-R32", 30, 3);
  Bits bits = space.all(kBaseBits);
  EXPECT_DOUBLE_EQ(space.bits_per_element(bits), 1.25);
  for (int i = 0; i < 16; ++i) bits[space.index({i, i % 3, false})] = 4;
  EXPECT_NEAR(space.bits_per_element(bits), 1.25 + 3.0 * 16 / 180, 1e-12);  // 1.517
  EXPECT_NEAR(space.added({0, 0, false}, 4), 3.0 / 180, 1e-15);
}

TEST(BitSpace, SchemesHaveTheBitsWhereTheyBelong) {
  const BitSpace space = space_of("K1V1-R32", 5, 2);
  Bits bits = space.all(kBaseBits);
  bits[space.index({1, 0, false})] = bits[space.index({4, 0, false})] = 4;
  bits[space.index({3, 1, true})] = 2;
  const schemas::Scheme scheme = space.scheme(bits);
  EXPECT_EQ(scheme.overrides.size(), 2u);  // one per tensor, width and head
  for (std::size_t i = 0; i < space.size(); ++i) {
    const Part part = space.part(i);
    EXPECT_EQ(space.index(part), i);
    const schemas::HeadScheme head = schemas::head_scheme(scheme, 5, part.layer, part.head);
    const schemas::TensorScheme& tensor = part.value ? head.value : head.key;
    EXPECT_EQ(tensor.bits, bits[i] == kBaseBits ? 1 : bits[i]);
    EXPECT_EQ(tensor.center, true);
  }
  EXPECT_THROW(BitSpace(scheme, 5, 2), base::UsageError);
}

TEST(Fill, NeverExceedsTheBudgetAndUsesItUp) {
  const BitSpace space = space_of("K1V1", 6, 2);
  base::Random random(3, "fill");
  for (int trial = 0; trial < 200; ++trial) {
    const double budget = 1.0 + 8.0 * random.uniform();
    const Bits bits = fill(space, ranked(space, random_upgrades(space, random)), budget);
    const double used = space.bits_per_element(bits);
    EXPECT_LE(used, std::max(budget, 1.25) + 1e-6);
    // Nothing that is left would still fit.
    for (std::size_t i = 0; i < space.size(); ++i) {
      if (bits[i] == kBaseBits) {
        EXPECT_GT(used + space.added(space.part(i), 2), budget - 1e-6);
      }
    }
  }
}

TEST(Fill, GivesMoreForMore) {
  const BitSpace space = space_of("K1V1", 6, 2);
  base::Random random(4, "fill");
  const std::vector<Upgrade> order = ranked(space, random_upgrades(space, random));
  double before = 0;
  for (double budget = 1.25; budget < 8.3; budget += 0.01) {
    const double used = space.bits_per_element(fill(space, order, budget));
    EXPECT_GE(used, before - 0.25);  // a wide one may come instead of some narrow ones
    EXPECT_LE(used, budget + 1e-6);
    before = used;
  }
}

TEST(Ranked, IsByValuePerBitAndBreaksTies) {
  const BitSpace space = space_of("K1V1", 2, 1);
  const auto order = ranked(space, {{1, 8, 7.0}, {1, 2, 1.0}, {0, 2, 1.0}, {0, 4, 6.0}});
  ASSERT_EQ(order.size(), 4u);
  EXPECT_EQ(order[0].bits, 4);
  EXPECT_EQ(order[1].part, 0u);
  EXPECT_EQ(order[2].part, 1u);
  EXPECT_EQ(order[3].bits, 8);
}

class AllocateTest : public ::testing::Test {
 protected:
  AllocateTest() {
    for (const char* book : {"train/a", "validation/c", "test/d"}) {
      std::string text;
      for (int i = 0; i < 60; ++i)
        text += "Nobody had told the " + std::to_string(i * 7 % 10) + " of " + book + " a thing. ";
      testing::write_text(folder_ / "corpus" / (std::string(book) + ".txt"), text);
    }
    testing::write_text(folder_ / "tiny.gguf", testing::tiny_gguf());
    config_ = testing::small_config(folder_.path());
    config_.model.path = (folder_ / "tiny.gguf").string();
    config_.model.compute = "f32";
    config_.precisions = {schemas::preset("K4V4"), schemas::preset("K1V1-R8")};
    config_.corpus.retrieval.kinds = {"passkey", "multi_key"};
    schemas::AllocationConfig& a = config_.allocation;
    a.base = "K1V1-R8", a.name = "mixed", a.budget = 3.0;
    a.prompts = 3, a.validation_prompts = 2, a.sites = 2, a.steps = 6, a.context = 450;
    a.random = 2;
  }
  schemas::AllocationResults allocated() {
    base::Progress silent;
    allocate(config_, silent);
    return schemas::read_allocation_results(file("allocation_results.json"));
  }
  std::filesystem::path file(const char* name) const { return config_.run_directory() / name; }

  TemporaryFolder folder_;
  schemas::Config config_;
};

TEST_F(AllocateTest, MakesAPrecisionWithinTheBudget) {
  const schemas::AllocationResults r = allocated();
  EXPECT_EQ(r.estimators.size(), 3u);
  EXPECT_EQ(r.random.size(), 2u);
  // head_dim 16: a scale takes a whole bit per element; 4 bits more than 1 are 3/8 of a bit here.
  EXPECT_DOUBLE_EQ(r.quantized.bits, 2.0);
  EXPECT_LE(r.allocated.bits, 3.0 + 1e-6);
  EXPECT_EQ(r.allocated.parts, 2);
  for (const auto& [name, point] : r.estimators) {
    EXPECT_LE(point.bits, 3.0 + 1e-6) << name;
    EXPECT_GE(point.loss.nll + point.loss.kl, r.allocated.loss.nll + r.allocated.loss.kl - 1e-12);
  }
  for (std::size_t i = 1; i < r.curve.size(); ++i) EXPECT_GT(r.curve[i].bits, r.curve[i - 1].bits);
  EXPECT_EQ(r.curve.front().parts, 0);
  EXPECT_EQ(r.curve.back().parts, 8);
  EXPECT_LT(r.curve.back().loss.kl, r.curve.front().loss.kl);

  const schemas::Config with = schemas::with_allocation(config_);
  const schemas::Scheme& mixed = with.precisions.back();
  int wide = 0;
  for (int i = 0; i < 4; ++i) {
    const schemas::HeadScheme head = schemas::head_scheme(mixed, 2, i / 2, i % 2);
    wide += (head.key.bits == 4) + (head.value.bits == 4);
  }
  EXPECT_EQ(wide, 2);
  EXPECT_THAT(base::read_file(file("allocation_results.svg")), HasSubstr("</svg>"));
  EXPECT_THAT(base::read_file(file("sensitivity.svg")), HasSubstr("layer 1, head 1"));
}

TEST_F(AllocateTest, GivesTheSameForAnyThreadCount) {
  allocated();
  std::string first = base::read_file(file("sensitivity.json")) +
                      base::read_file(file("allocation_results.json")) +
                      base::read_file(file("allocation.json"));
  config_.run.name = "again";
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    allocated();
  }
  EXPECT_EQ(base::read_file(file("allocation.json")),
            base::read_file(folder_ / "runs/small/allocation.json"));
  std::string second = base::read_file(file("sensitivity.json")) +
                       base::read_file(file("allocation_results.json")) +
                       base::read_file(file("allocation.json"));
  EXPECT_EQ(first, second);
}

TEST_F(AllocateTest, IsSkippedWhenDoneAndKeepsTheSensitivityForAnotherBudget) {
  testing::RecordingProgress progress;
  allocate(config_, progress);
  const auto written = std::filesystem::last_write_time(file("sensitivity.json"));
  allocate(config_, progress);
  EXPECT_THAT(progress.infos_.back(), HasSubstr("up to date"));
  config_.precisions.push_back(schemas::preset("K8V8"));  // of no concern
  allocate(config_, progress);
  EXPECT_THAT(progress.infos_.back(), HasSubstr("up to date"));
  config_.allocation.budget = 4.0;
  allocate(config_, progress);
  EXPECT_THAT(progress.infos_.back(), HasSubstr("allocation: 5 tensors of 8"));
  EXPECT_EQ(std::filesystem::last_write_time(file("sensitivity.json")), written);
}

TEST_F(AllocateTest, SensitivityIsWhatTheDecodesSay) {
  allocated();
  const schemas::Sensitivity s = schemas::read_sensitivity(file("sensitivity.json"));
  EXPECT_EQ(s.prompts, 3);
  EXPECT_EQ(s.sites, 2);
  EXPECT_GT(s.quantized.kl, 0);
  const auto tokenizer = engine::open_tokenizer(config_.model.path, "auto");
  const auto decoder = engine::open_decoder(config_.model.path, "auto", "cpu", {.compute = "f32"});
  base::Progress silent;
  schemas::Config own = config_;
  const Bank bank(*decoder, make_cases(own, "train", 3, *tokenizer, silent));
  const BitSpace space(config_.precisions[1], 2, 2);
  // Nothing quantised: the reference itself.
  const AllocationLoss exact =
      bank.run_all(std::vector{space.scheme(space.all(kExactBits))}, [](std::int64_t) {}).front();
  EXPECT_NEAR(exact.nll, s.exact.nll, 1e-6);
  EXPECT_NEAR(exact.kl, 0, 1e-6);
  Bits bits = space.all(kBaseBits);
  bits[space.index({1, 0, true})] = 4;
  const AllocationLoss spared =
      bank.run_all(std::vector{space.scheme(bits)}, [](std::int64_t) {}).front();
  EXPECT_NEAR(s.tensors.at("value").gain_kl[1][0], s.quantized.kl - spared.kl, 1e-12);
  EXPECT_NEAR(s.tensors.at("value").gain_nll[1][0], s.quantized.nll - spared.nll, 1e-12);
}

TEST_F(AllocateTest, ReachesAFloorWithTheFewestBits) {
  config_.allocation.budget = 0;
  config_.allocation.floor = 1e-9;  // whatever gets a single token right
  try {
    const schemas::AllocationResults r = allocated();
    EXPECT_GE(r.allocated.loss.token, 1e-9);
  } catch (const base::FailedError& error) {  // a random model may get none right
    EXPECT_THAT(error.what(), HasSubstr("allocation.floor"));
  }
  config_.allocation.floor = 1.0;
  EXPECT_THAT(message_of([&] { allocated(); }), HasSubstr("allocation.floor: no allocation"));
}

TEST_F(AllocateTest, SaysWhatIsWrong) {
  config_.allocation.choices = {16};
  config_.precisions[1] = schemas::preset("exact");
  config_.allocation.base = "exact";
  EXPECT_THAT(message_of([&] { allocated(); }), HasSubstr("allocation"));
  config_.allocation.base = "K4V4", config_.allocation.choices = {2};
  EXPECT_THAT(message_of([&] { allocated(); }),
              HasSubstr("allocation.choices: 2 bits are not more than those of K4V4"));
  config_.allocation.context = 100'000;
  EXPECT_THAT(message_of([&] { allocated(); }), HasSubstr("allocation.context"));
}

}  // namespace
}  // namespace dgap::calibrator
