#include "evaluator/controls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "statistics/exact_row.hpp"
#include "statistics/reference_row.hpp"
#include "tests/statistics/random_trace.hpp"

namespace dgap::evaluator {
namespace {

using testing::make_trace;
using testing::RandomTrace;

constexpr double kAlpha = 0.9;
constexpr int kWindow = 20;

class ControlsTest : public ::testing::TestWithParam<RandomTrace> {
 protected:
  void for_each_step(const std::function<void(std::int64_t)>& body) {
    for (std::int64_t step = 0; step < trace_.steps(); ++step) {
      window_.assign(trace_, 0, step, kAlpha, kWindow);
      edited_.resize(window_.k()), resorted_.resize(window_.k());
      body(step);
    }
  }
  /// Mass of the window in the row that the edit gives, from the full logits.
  double mass(std::int64_t step, const std::vector<float>& edited) const {
    const std::vector<float> row = edited_row(step, edited);
    const double lse = statistics::exact_row(row).lse;
    double sum = 0.0;
    for (const std::int32_t id : window_.ids()) sum += std::exp(row[id] - lse);
    return sum;
  }
  std::vector<float> edited_row(std::int64_t step, const std::vector<float>& edited) const {
    const auto row = testing::row(trace_.columns[0].logits, step, trace_.header.vocab_size);
    std::vector<float> result(row.begin(), row.end());
    for (int i = 0; i < window_.k(); ++i) result[window_.ids()[i]] = edited[i];
    return result;
  }
  /// Candidates by (logit descending, id ascending).
  std::vector<int> order(std::span<const float> logits) const {
    std::vector<int> places(logits.size());
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : window_.ids()[a] < window_.ids()[b];
    });
    return places;
  }

  schemas::TracePart trace_ = make_trace(GetParam());
  statistics::StepWindow window_;
  std::vector<float> edited_, resorted_;
};

TEST_P(ControlsTest, QuantizedRankingPermutesTheReferencesValues) {
  for_each_step([&](std::int64_t step) {
    quantized_ranking(window_, edited_);
    EXPECT_TRUE(std::is_sorted(edited_.begin(), edited_.end(), std::greater<>()));
    std::vector<float> oracle(edited_.size());
    window_.oracle(oracle);
    std::sort(oracle.begin(), oracle.end(), std::greater<>());
    EXPECT_EQ(edited_, oracle);
    EXPECT_NEAR(mass(step, edited_), window_.reference_mass(), 1e-5);
  });
}

/// method.md: KL <= 1e-6 and the same argmax, here over the whole shifted row as it is served.
TEST_P(ControlsTest, ShiftChangesNothing) {
  for_each_step([&](std::int64_t step) {
    shift(window_, 3.0f, edited_);
    const auto before = window_.before(), after = window_.after(edited_);
    EXPECT_NEAR(after.kl, before.kl, 1e-6);
    EXPECT_EQ(after.top1, before.top1);
    EXPECT_NEAR(after.drift, before.drift, 1e-6);

    const auto row = testing::row(trace_.columns[0].logits, step, trace_.header.vocab_size);
    std::vector<float> shifted(row.begin(), row.end());
    for (float& logit : shifted) logit += 3.0f;
    statistics::ReferenceRow quantized(trace_.header.vocab_size, 1, 0.5);
    quantized.assign(row);
    EXPECT_LE(quantized.kl_to(shifted, statistics::exact_row(shifted).lse), 1e-6);
    EXPECT_EQ(std::max_element(shifted.begin(), shifted.end()) - shifted.begin(),
              std::max_element(row.begin(), row.end()) - row.begin());
  });
}

TEST_P(ControlsTest, NoiseKeepsMassAndItsResortedValuesTheReferencesOrder) {
  base::Random random(4);
  Noise noise;
  double changed = 0.0;
  for_each_step([&](std::int64_t step) {
    noise.draw(window_, random, edited_, resorted_);
    EXPECT_NEAR(mass(step, edited_), window_.reference_mass(), 1e-5);
    std::vector<float> a = edited_, b = resorted_;
    std::sort(a.begin(), a.end()), std::sort(b.begin(), b.end());
    EXPECT_EQ(a, b);
    const std::vector<int> wanted = order(window_.reference_logits());
    for (std::size_t i = 1; i < wanted.size(); ++i) {
      EXPECT_GE(resorted_[wanted[i - 1]], resorted_[wanted[i]]);
    }
    changed += edited_ != resorted_;
  });
  EXPECT_GT(changed, 0.5 * static_cast<double>(trace_.steps()));
}

/// Traces whose windows are of one size.
class NoiseTest : public ControlsTest {};

TEST_P(NoiseTest, IsAsStrongAsTheQuantisation) {
  base::Random random(5);
  Noise noise;
  double drawn = 0.0, own = 0.0;
  const auto variance = [&](std::span<const float> logits) {
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < window_.k(); ++i) {
      const double difference = logits[i] - window_.reference_logits()[i];
      sum += difference, squares += difference * difference;
    }
    return squares / window_.k() - sum / window_.k() * (sum / window_.k());
  };
  for_each_step([&](std::int64_t) {
    noise.draw(window_, random, edited_, resorted_);
    drawn += variance(edited_), own += variance(window_.logits());
  });
  // A variance over 20 draws falls short by 1/20 on average; 40 steps x 20 draws: about 5 % noise.
  EXPECT_NEAR(drawn / own, 0.95, 0.2);
}

std::string name_of(const ::testing::TestParamInfo<RandomTrace>& info) {
  return info.param.masked > 0 ? "masked" : info.param.grid > 0 ? "ties" : "plain";
}

INSTANTIATE_TEST_SUITE_P(Traces, ControlsTest,
                         ::testing::Values(RandomTrace{}, RandomTrace{.grid = 0.5f},
                                           RandomTrace{.vocab = 60, .masked = 0.7}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Traces, NoiseTest,
                         ::testing::Values(RandomTrace{}, RandomTrace{.grid = 0.5f}), name_of);

}  // namespace
}  // namespace dgap::evaluator
