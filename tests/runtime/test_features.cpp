#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/features.hpp"
#include "runtime/row_scan.hpp"
#include "tests/runtime/rows.hpp"

namespace dgap::runtime {
namespace {

using Features = std::map<std::string, long double, std::less<>>;

/// docs/features.md, word for word, in extended precision.
Features reference_features(std::span<const float> window, double lse, float entropy) {
  const auto k = static_cast<int>(window.size());
  const auto z = [&](int j) {  // 1-based; the last candidate stands in
    return static_cast<long double>(window[static_cast<std::size_t>(std::min(j, k) - 1)]);
  };
  const auto p = [&](int j) { return std::exp(z(j) - lse); };
  const auto mass = [&](int n) {
    long double sum = 0;
    for (int j = 1; j <= std::min(n, k); ++j) sum += p(j);
    return sum;
  };
  const long double total = mass(k);
  std::vector<long double> gaps;
  for (int j = 1; j <= std::min(10, k - 1); ++j) gaps.push_back(z(j) - z(j + 1));
  long double gap_mean = 0, gap_var = 0, gap_min = gaps.empty() ? 0 : gaps[0];
  for (const auto g : gaps) gap_mean += g / static_cast<long double>(gaps.size());
  for (const auto g : gaps) {
    gap_var += (g - gap_mean) * (g - gap_mean) / static_cast<long double>(gaps.size());
    gap_min = std::min(gap_min, g);
  }
  long double window_entropy = 0, collision = 0, mean = 0, variance = 0;
  for (int j = 1; j <= k; ++j) {
    const long double q = p(j) / total;
    if (q > 0) window_entropy -= q * std::log(q);
    collision += q * q;
    mean += z(j) / k;
  }
  for (int j = 1; j <= k; ++j) variance += (z(j) - mean) * (z(j) - mean) / k;
  const long double odds = total < 1 ? std::log(total / (1 - total)) : 12;
  return {{"entropy", entropy},
          {"top_mass", total},
          {"top1", p(1)},
          {"top2_mass", mass(2)},
          {"top5_mass", mass(5)},
          {"top10_mass", mass(10)},
          {"gap12", z(1) - z(2)},
          {"gap23", z(2) - z(3)},
          {"gap34", z(3) - z(4)},
          {"gap_mean10", gap_mean},
          {"gap_std10", std::sqrt(gap_var)},
          {"gap_min10", gap_min},
          {"margin5", z(1) - z(5)},
          {"margin10", z(1) - z(10)},
          {"marginK", z(1) - z(k)},
          {"window_entropy", window_entropy},
          {"collision", collision},
          {"window_variance", variance},
          {"log_odds_top_mass", std::clamp(odds, -12.0L, 12.0L)},
          {"log_candidates", std::log(k)}};
}

struct Window {
  std::vector<float> values;
  RowStatistics statistics;
};

Window window_of(const std::vector<float>& row, std::int64_t k) {
  RowScan scan(std::ssize(row), k);
  Window window{std::vector<float>(static_cast<std::size_t>(k)), scan.assign(Row(row))};
  std::vector<std::int32_t> ids(window.values.size());
  window.values.resize(static_cast<std::size_t>(scan.top(ids.data(), window.values.data())));
  return window;
}

TEST(DetectorFeatures, FollowTheirFormulas) {
  for (const std::int64_t k : {1, 2, 3, 4, 5, 9, 10, 11, 12, 16, 17, 64, 255}) {
    for (const test::Row& row : test::hard_rows(3000)) {
      const Window window = window_of(row.logits, k);
      float phi[kDetectorWidth];
      detector_features(window.values, window.statistics.lse, window.statistics.entropy, phi);
      const Features exact =
          reference_features(window.values, window.statistics.lse, window.statistics.entropy);
      for (int i = 0; i < kDetectorWidth; ++i) {
        const std::string name(kDetectorFeatures[static_cast<std::size_t>(i)]);
        constexpr long double kLargest = std::numeric_limits<float>::max();
        const auto value = static_cast<double>(std::min(exact.at(name), kLargest));
        // One rounding to float; where the tail is 1 - m, the f64 rounding of m over the tail.
        const auto tail = static_cast<double>(std::max(1e-16L, 1 - exact.at("top_mass")));
        const double lost = name == "log_odds_top_mass" && std::abs(value) < 12 ? 1e-15 / tail : 0;
        EXPECT_NEAR(phi[i], value, 1.2e-7 * std::abs(value) + 1e-9 + lost)
            << name << ", " << row.name << ", K " << window.values.size();
      }
    }
  }
}

TEST(DetectorFeatures, WorkedExample) {
  // Two candidates of probability 1/2 and 1/4 out of a distribution with 1/4 left.
  const std::vector<float> window = {0.0f, -0.6931472f};
  float phi[kDetectorWidth];
  detector_features(window, std::log(2.0), 1.5f, phi);
  const auto feature = [&](std::string_view name) {
    return phi[std::find(kDetectorFeatures.begin(), kDetectorFeatures.end(), name) -
               kDetectorFeatures.begin()];
  };
  EXPECT_FLOAT_EQ(feature("entropy"), 1.5f);
  EXPECT_FLOAT_EQ(feature("top_mass"), 0.75f);
  EXPECT_FLOAT_EQ(feature("top10_mass"), 0.75f);
  EXPECT_FLOAT_EQ(feature("top1"), 0.5f);
  EXPECT_FLOAT_EQ(feature("gap12"), 0.6931472f);
  EXPECT_FLOAT_EQ(feature("gap23"), 0.0f);
  EXPECT_FLOAT_EQ(feature("gap_mean10"), 0.6931472f);
  EXPECT_FLOAT_EQ(feature("gap_std10"), 0.0f);
  EXPECT_FLOAT_EQ(feature("marginK"), 0.6931472f);
  EXPECT_FLOAT_EQ(feature("window_entropy"), 0.63651417f);  // of (2/3, 1/3)
  EXPECT_FLOAT_EQ(feature("collision"), 5.0f / 9.0f);
  EXPECT_FLOAT_EQ(feature("window_variance"), 0.6931472f * 0.6931472f / 4.0f);
  EXPECT_FLOAT_EQ(feature("log_odds_top_mass"), 1.0986123f);  // log 3
  EXPECT_FLOAT_EQ(feature("log_candidates"), 0.6931472f);
}

TEST(DetectorFeatures, AreFiniteForHugeLogits) {
  const std::vector<float> window = {3.4e38f, 0.0f, -3.4e38f};
  float phi[kDetectorWidth];
  detector_features(window, window[0], 0.0f, phi);
  for (const float x : phi) EXPECT_TRUE(std::isfinite(x));
  EXPECT_EQ(phi[14], std::numeric_limits<float>::max());  // marginK, which no float can hold
}

TEST(CandidateFeatures, FollowTheirFormulas) {
  for (const std::int64_t k : {1, 2, 5, 64}) {
    for (const test::Row& row : test::hard_rows(2000)) {
      const Window window = window_of(row.logits, k);
      const auto& z = window.values;
      std::vector<float> xi(z.size() * kCandidateWidth);
      candidate_features(z, window.statistics.lse, xi.data());
      long double mean = 0;
      for (const float x : z) mean += x / static_cast<long double>(z.size());
      for (std::size_t i = 0; i < z.size(); ++i) {
        const long double log_p = z[i] - static_cast<long double>(window.statistics.lse);
        const long double exact[kCandidateWidth] = {
            z[i] - mean,
            std::exp(log_p),
            log_p,
            std::log1p(static_cast<long double>(i)),
            static_cast<long double>(z[0]) - z[i],
            i == 0 ? 0.0L : static_cast<long double>(z[i - 1]) - z[i],
            i + 1 == z.size() ? 0.0L : static_cast<long double>(z[i]) - z[i + 1]};
        for (int c = 0; c < kCandidateWidth; ++c) {
          const auto value = static_cast<double>(exact[c]);
          // One rounding to float; sums of f64 at the size of the logits.
          const double tolerance = 1e-7 * std::abs(value) + 1e-14 * (1.0 + std::abs(z[0]));
          EXPECT_NEAR(xi[i * kCandidateWidth + static_cast<std::size_t>(c)], value, tolerance)
              << kCandidateFeatures[static_cast<std::size_t>(c)] << ", " << row.name << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dgap::runtime
