#include "trainer/losses.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/trainer/data.hpp"

namespace dgap::trainer {
namespace {

using testing::gradient_error;
using testing::random_parameters;

int padded(int k) { return (k + 15) / 16 * 16; }

TEST(BinaryCrossEntropy, FarFromTheLabelItIsLinearAndFinite) {  // pytorch/pytorch#13773
  const std::vector<float> logits = {0.0f, -120.0f};
  const std::vector<std::uint8_t> labels = {0, 1};
  std::vector<float> gradient(2);
  const double sum = binary_cross_entropy(logits.data(), labels.data(), 1.0, 2, gradient.data());
  EXPECT_NEAR(sum / 2, 60.346574, 5e-7);
  EXPECT_FLOAT_EQ(gradient[0], 0.5f);
  EXPECT_FLOAT_EQ(gradient[1], -1.0f);
}

TEST(BinaryCrossEntropy, WeighsPositivesAndHasTheirGradient) {
  const auto at = random_parameters<double>(24, 6.0, 3);
  std::vector<std::uint8_t> labels(24);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 3 == 0;
  std::vector<double> gradient(24);
  const double weight = 2.5;
  const auto f = [&](const std::vector<double>& x) {
    return binary_cross_entropy(x.data(), labels.data(), weight, 24, nullptr);
  };
  const double sum = binary_cross_entropy(at.data(), labels.data(), weight, 24, gradient.data());
  double expected = 0.0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double p = 1.0 / (1.0 + std::exp(-at[i]));
    expected -= labels[i] ? weight * std::log(p) : std::log(1.0 - p);
  }
  EXPECT_NEAR(sum, expected, 1e-12 * expected);
  EXPECT_LT(gradient_error(gradient, at, f), 1e-9);
}

/// KL written down, in long double.
double direct_kl(const std::vector<double>& z, const WindowTarget& target, double temperature) {
  std::vector<long double> logits(z.begin(), z.begin() + target.k);
  std::vector<long double> p(target.probability, target.probability + target.k);
  if (target.has_tail) {
    logits.push_back(target.tail_logit);
    p.push_back(target.tail_probability);
  }
  long double total = 0;
  for (const long double x : logits) total += std::exp(x / temperature);
  long double kl = 0, mass = 0;
  for (const long double x : p) mass += x;
  for (std::size_t i = 0; i < p.size(); ++i) {
    kl += p[i] * (std::log(p[i] / mass) - (logits[i] / temperature - std::log(total)));
  }
  return static_cast<double>(kl);
}

/// A target of k classes and a tail, its entropy included.
struct Target {
  std::vector<float> p;
  WindowTarget target;
  Target(int k, bool tail, std::uint64_t seed) {
    base::Random random(seed);
    double sum = 0.0;
    std::vector<double> raw(static_cast<std::size_t>(k) + 1);
    for (double& x : raw) sum += x = std::exp(3.0 * random.normal());
    for (double x : raw) p.push_back(static_cast<float>(x / sum));
    target = {p.data(), k, tail, p.back(), 0.7, 0.0};
    p.resize(static_cast<std::size_t>(k) + (tail ? 1 : 0));
    const double mass = std::accumulate(p.begin(), p.end(), 0.0);
    for (const double x : p) target.negative_entropy += x * std::log(x / mass);
  }
};

TEST(WindowKl, EqualsItsDefinition) {
  for (const int k : {1, 2, 15, 16, 17, 50}) {
    for (const bool tail : {false, true}) {
      for (const double temperature : {1.0, 2.0, 0.5}) {
        const Target t(k, tail, 7 + k);
        const auto z = random_parameters<double>(k, 5.0, 11);
        const double expected = direct_kl(z, t.target, temperature);
        const auto f = [&](const std::vector<double>& x) {
          return window_kl(x.data(), t.target, temperature, nullptr);
        };
        EXPECT_NEAR(f(z), expected, 1e-12 * (1.0 + expected)) << k << tail << temperature;
        std::vector<double> gradient(z.size());
        window_kl(z.data(), t.target, temperature, gradient.data());
        if (k == 1 && !tail) continue;  // the gradient is 0
        EXPECT_LT(gradient_error(gradient, z, f), 1e-8) << k << tail << temperature;
        const std::vector<float> single(z.begin(), z.end());
        std::vector<float> slope(z.size());
        EXPECT_NEAR(window_kl(single.data(), t.target, temperature, slope.data()), expected, 1e-5);
        for (std::size_t i = 0; i < slope.size(); ++i) EXPECT_NEAR(slope[i], gradient[i], 2e-6);
      }
    }
  }
}

TEST(WindowKl, IsZeroAtTheTargetAndResolvesSmallDifferences) {
  Target t(40, true, 5);
  std::vector<double> z;
  for (int i = 0; i < 40; ++i) z.push_back(std::log(double{t.p[i]}) + 20.0);
  t.target.tail_logit = std::log(double{t.p[40]}) + 20.0;
  EXPECT_NEAR(window_kl(z.data(), t.target, 1.0, nullptr), 0.0, 1e-14);
  z[0] += 1e-4;  // KL = p (1 - p) d^2 / 2 to first order
  const double p = t.p[0];
  EXPECT_NEAR(window_kl(z.data(), t.target, 1.0, nullptr) / (p * (1 - p) * 1e-8 / 2), 1.0, 1e-3);
}

TEST(WindowKl, IsFiniteForLogitsFarApart) {
  const Target t(3, true, 5);
  const std::vector<float> z = {800.0f, -800.0f, 0.0f};
  std::vector<float> gradient(3);
  EXPECT_TRUE(std::isfinite(window_kl(z.data(), t.target, 1.0, gradient.data())));
  for (const float g : gradient) EXPECT_TRUE(std::isfinite(g));
}

/// Windows in the reference's order, padded as samples are.
struct Ranked {
  std::vector<double> z;
  std::vector<float> p;
  int k;
  Ranked(int candidates, double spread, std::uint64_t seed) : k(candidates) {
    base::Random random(seed);
    std::vector<double> raw(static_cast<std::size_t>(k));
    for (double& x : raw) x = std::exp(2.0 * random.normal());
    std::sort(raw.rbegin(), raw.rend());
    const double sum = std::accumulate(raw.begin(), raw.end(), 0.5);
    for (const double x : raw) p.push_back(static_cast<float>(x / sum));
    if (k > 3) p[2] = p[1];  // a tie
    for (int i = 0; i < k; ++i) z.push_back(spread * random.normal());
    p.resize(static_cast<std::size_t>(padded(k)), kRankingPad);
    z.resize(p.size(), z.back());
  }
};

double direct_ranking(const std::vector<double>& z, const std::vector<float>& p, int k) {
  double sum = 0.0;
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < k; ++j) {
      if (p[i] > p[j]) sum += (double{p[i]} - p[j]) * std::log1p(std::exp(-(z[i] - z[j])));
    }
  }
  return sum;
}

TEST(Ranking, IsTheSumOverAllPairs) {
  for (const int k : {1, 2, 15, 16, 17, 64, 200, 256}) {
    for (const double spread : {0.5, 3.0, 40.0}) {
      const Ranked r(k, spread, 100 + k);
      const double expected = direct_ranking(r.z, r.p, k);
      std::vector<double> gradient(r.z.size());
      EXPECT_NEAR(ranking_loss(r.z.data(), r.p.data(), k, gradient.data()), expected,
                  1e-6 * (expected + 1e-6));  // p_i - p_j is rounded to f32
      const std::vector<float> z(r.z.begin(), r.z.end());
      std::vector<float> slope(z.size());
      EXPECT_NEAR(ranking_loss(z.data(), r.p.data(), k, slope.data()), expected,
                  2e-6 * (expected + 1e-6))
          << k << " " << spread;
      double largest = 1e-9;
      for (const double g : gradient) largest = std::max(largest, std::abs(g));
      for (int i = 0; i < k; ++i)
        EXPECT_NEAR(slope[i], gradient[i], 1e-5 * largest) << k << " " << i;
      for (std::size_t i = k; i < slope.size(); ++i) EXPECT_EQ(slope[i], 0.0f);
    }
  }
}

TEST(Ranking, HasTheGradientOfItsValue) {
  for (const int k : {2, 17, 60}) {
    const Ranked r(k, 2.0, k);
    std::vector<double> gradient(r.z.size());
    ranking_loss(r.z.data(), r.p.data(), k, gradient.data());
    const auto f = [&](const std::vector<double>& z) {
      std::vector<double> unused(z.size());
      return ranking_loss(z.data(), r.p.data(), k, unused.data());
    };
    EXPECT_LT(gradient_error(gradient, r.z, f), 1e-8) << k;
  }
}

TEST(Ranking, OrderedWindowCostsLessThanReversed) {
  const Ranked r(32, 1.0, 9);
  std::vector<float> ordered(32), unused(32);
  for (int i = 0; i < 32; ++i) ordered[i] = static_cast<float>(-i);
  std::vector<float> reversed(ordered.rbegin(), ordered.rend());
  EXPECT_LT(ranking_loss(ordered.data(), r.p.data(), 32, unused.data()),
            ranking_loss(reversed.data(), r.p.data(), 32, unused.data()) / 10);
}

}  // namespace
}  // namespace dgap::trainer
