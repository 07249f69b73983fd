#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/exp.hpp"
#include "base/random.hpp"
#include "statistics/exact_row.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::statistics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Logits of several kinds: spread out, with many ties, with -inf, with signed zeros.
std::vector<std::vector<float>> rows_of(std::int64_t width) {
  base::Random random(7);
  std::vector<std::vector<float>> rows(5, std::vector<float>(width));
  for (float& z : rows[0]) z = static_cast<float>(3.0 * random.normal());
  for (float& z : rows[1]) z = static_cast<float>(std::round(random.normal()));
  for (float& z : rows[2]) z = random.below(3) ? static_cast<float>(random.normal()) : -kInfinity;
  for (float& z : rows[3]) z = random.below(2) ? 0.0f : -0.0f;
  for (float& z : rows[4]) z = static_cast<float>(40.0 * random.uniform() - 50.0);
  rows[2][0] = 0.5f;
  rows[4][width / 2] = 3e38f;  // squeezes all others into one bucket
  return rows;
}

std::vector<std::int32_t> sorted_ids(std::span<const float> z) {
  std::vector<std::int32_t> ids(z.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return z[a] > z[b]; });
  return ids;
}

TEST(ReferenceRow, OrderMassesAndCandidatesMatchDirectComputation) {
  for (const std::int64_t width : {1, 2, 17, 1000, 5000}) {
    ReferenceRow row(width, width, 0.95);
    for (const std::vector<float>& z : rows_of(width)) {
      row.assign(z);
      const auto ids = sorted_ids(z);
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), row.order().begin(), row.order().end()));
      long double top = z[ids[0]], total = 0.0L;
      for (const float x : z) total += std::exp(x - top);
      EXPECT_NEAR(row.lse(), static_cast<double>(top + std::log(total)),
                  1e-13 * std::max(1.0, std::abs(row.lse())));
      double mass = 0.0;
      std::int64_t expected = 0;
      for (const auto id : ids) {
        EXPECT_EQ(row.mass_before(id), mass);
        if (mass < 0.95 && z[id] > -kInfinity) ++expected;
        mass += base::exp_f64(static_cast<double>(z[id]) - row.lse());
      }
      EXPECT_EQ(std::ssize(row.candidates()), expected);
      EXPECT_NEAR(mass, 1.0, 1e-12);
    }
  }
}

TEST(ReferenceRow, CandidatesNeverHoldMaskedTokens) {
  const std::vector<float> z = {0.0f, -kInfinity, 1.0f, -kInfinity};
  for (const auto& [alpha, expected] : {std::pair{1.0, 2}, {2.0, 2}, {0.0, 0}}) {
    ReferenceRow row(4, 4, alpha);
    row.assign(z);
    EXPECT_EQ(std::ssize(row.candidates()), expected);
  }
}

TEST(ReferenceRow, AShallowOrderSaysWhatAFullOneSays) {
  for (const std::int64_t width : {17, 1000, 5000}) {
    for (const std::vector<float>& z : rows_of(width)) {
      ReferenceRow full(width, width, 0.95);
      full.assign(z);
      for (const double alpha : {0.0, 1e-6, 0.5, 0.95}) {
        for (const std::int64_t top : {1, 16}) {
          ReferenceRow row(width, top, alpha);
          row.assign(z);
          const auto order = row.order();
          ASSERT_GE(std::ssize(order), std::max(top, std::ssize(row.candidates())));
          ASSERT_TRUE(std::equal(order.begin(), order.end(), full.order().begin()));
          std::int64_t before_alpha = 0;
          for (std::int32_t id = 0; id < width; ++id) {
            ASSERT_NEAR(row.mass_before(id), full.mass_before(id), 1e-13);
            if (row.mass_before(id) < alpha && z[id] > -kInfinity) ++before_alpha;
          }
          ASSERT_EQ(std::ssize(row.candidates()), before_alpha);
        }
      }
    }
  }
}

TEST(ReferenceRow, KlMatchesDirectComputation) {
  const std::int64_t width = 5000;
  base::Random random(3);
  std::vector<float> z(width), q(width);
  for (std::int64_t i = 0; i < width; ++i) {
    z[i] = static_cast<float>(8.0 * random.normal());
    q[i] = static_cast<float>(z[i] + random.normal());
  }
  z[5] = 40.0f, q[5] = 39.0f;  // a spread of more than 40 nats
  z[6] = -kInfinity;           // ruled out by the reference: counts nothing
  z[7] = q[7] = -kInfinity;
  ReferenceRow row(width, 1, 0.5);
  row.assign(z);
  const double other_lse = statistics::exact_row(q).lse;
  long double expected = 0.0L;
  for (std::int64_t i = 0; i < width; ++i) {
    if (z[i] == -kInfinity) continue;
    const long double log_p = static_cast<long double>(z[i]) - row.lse();
    expected += std::exp(log_p) * (log_p - (static_cast<long double>(q[i]) - other_lse));
  }
  EXPECT_NEAR(row.kl_to(q, other_lse), static_cast<double>(expected), 1e-12);
  EXPECT_EQ(row.kl_to(z, row.lse()), 0.0);
  std::vector<float> shifted = z;
  for (float& x : shifted) x += 1.0f;
  EXPECT_NEAR(row.kl_to(shifted, statistics::exact_row(shifted).lse), 0.0, 1e-6);
  EXPECT_GE(row.kl_to(shifted, statistics::exact_row(shifted).lse), 0.0);
  q[8] = -kInfinity;  // ruled out by the other alone
  EXPECT_EQ(row.kl_to(q, statistics::exact_row(q).lse), kInfinity);
}

TEST(ReferenceRow, RefusesWhatIsNotADistribution) {
  ReferenceRow row(3, 1, 0.5);
  EXPECT_THROW(row.assign(std::vector<float>{0.0f, kInfinity, 0.0f}), base::FailedError);
  EXPECT_THROW(row.assign(std::vector<float>{0.0f, std::nanf(""), 0.0f}), base::FailedError);
  EXPECT_THROW(row.assign(std::vector<float>(3, -kInfinity)), base::FailedError);
  EXPECT_THROW(row.assign(std::vector<float>(2)), base::FailedError);
}

TEST(RanksOf, MatchAFullSortForFewAndManyIds) {
  base::Random random(11);
  RowOrder scratch;
  for (const std::int64_t width : {1, 2, 100, 5000}) {
    for (const std::vector<float>& z : rows_of(width)) {
      const auto ids = sorted_ids(z);
      std::vector<std::int32_t> rank_of(width);
      for (std::int64_t r = 0; r < width; ++r) rank_of[ids[r]] = static_cast<std::int32_t>(r);
      for (const std::size_t count : {0, 1, 3, 60, 2000}) {
        std::vector<std::int32_t> asked(count), ranks(count, -1);
        for (auto& id : asked) id = static_cast<std::int32_t>(random.below(width));  // repeated too
        ranks_of(z, asked, ranks.data(), scratch);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(ranks[i], rank_of[asked[i]]);
      }
    }
  }
}

TEST(KlDivergence, OfKeptLogitsIsThatOfTheRow) {
  constexpr std::int64_t kWidth = 1000;
  const std::vector<std::vector<float>> rows = rows_of(kWidth);
  ReferenceRow row(kWidth, 1, 0.5);
  for (const std::vector<float>& z : rows) {
    row.assign(z);
    for (const std::vector<float>& other : rows) {
      const double lse = statistics::exact_row(other).lse;
      const double kl = kl_divergence(z, row.lse(), other, lse);
      if (std::isinf(row.kl_to(other, lse)))
        EXPECT_EQ(kl, row.kl_to(other, lse));
      else
        EXPECT_NEAR(kl, row.kl_to(other, lse), 1e-12 * (1.0 + std::abs(lse) + std::abs(row.lse())));
    }
    EXPECT_EQ(kl_divergence(z, row.lse(), z, row.lse()), 0.0);
  }
}

}  // namespace
}  // namespace dgap::statistics
