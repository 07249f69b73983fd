#include "runtime/row_scan.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/rows.hpp"

namespace dgap::runtime {
namespace {

using test::kInfinity;
using test::kNaN;

RowStatistics statistics_of(std::span<const float> logits) {
  return RowScan(std::ssize(logits), 1).assign(Row(logits));
}

TEST(RowScan, StatisticsAgreeWithExtendedPrecision) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 33, 511, 512, 513, 1000, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      const RowStatistics found = statistics_of(row.logits);
      const test::Statistics exact = test::reference_statistics(row.logits);
      ASSERT_TRUE(found.valid) << row.name;
      // Three roundings of an exponential's argument and value and some of eight f32 terms, each
      // 6e-8 of what they are part of; the f64 sum at last has the magnitude of the logits.
      const double scale = std::max(1.0, 1e-9 * std::abs(static_cast<double>(exact.lse)));
      EXPECT_NEAR(found.lse, static_cast<double>(exact.lse), 3e-7 * scale) << row.name << width;
      const auto entropy = static_cast<double>(exact.entropy);
      EXPECT_NEAR(found.entropy, entropy, 3e-7 * (1.0 + entropy)) << row.name << " " << width;
      EXPECT_GE(found.entropy, 0.0f);
    }
  }
}

// Traces are made with other windows than bundles.
TEST(RowScan, StatisticsDoNotDependOnTheWindow) {
  for (const std::int64_t width : {1, 600, 5000, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      const RowStatistics one = statistics_of(row.logits);
      for (const std::int64_t k : {2, 63, 64, 65, 144, 1000}) {
        const RowStatistics found = RowScan(width, k).assign(Row(row.logits));
        EXPECT_EQ(found.lse, one.lse) << row.name << " " << width << " " << k;
        EXPECT_EQ(found.entropy, one.entropy) << row.name << " " << width << " " << k;
      }
    }
  }
}

TEST(RowScan, MasksCountNothing) {
  std::vector<float> row(1003, -kInfinity);
  row[0] = row[500] = row[1002] = 2.0f;
  const RowStatistics found = statistics_of(row);
  EXPECT_NEAR(found.entropy, std::log(3.0), 1e-7);
  EXPECT_NEAR(found.lse, 2.0 + std::log(3.0), 1e-15);
}

TEST(RowScan, RefusesWhatHasNoDistribution) {
  for (const std::size_t width : {1u, 16u, 40u, 600u}) {
    for (std::size_t place = 0; place < width; ++place) {
      for (const float bad : {kNaN, -kNaN, kInfinity}) {
        std::vector<float> row(width, 1.0f);
        row[place] = bad;
        EXPECT_FALSE(statistics_of(row).valid) << width << " " << place;
        std::fill(row.begin(), row.end(), bad);
        EXPECT_FALSE(statistics_of(row).valid) << width;
      }
    }
    EXPECT_FALSE(statistics_of(std::vector<float>(width, -kInfinity)).valid);
  }
  EXPECT_FALSE(statistics_of({}).valid);
}

void expect_top(const test::Row& row, std::int64_t k) {
  RowScan scan(std::ssize(row.logits), k);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(k), -1);
  std::vector<float> values(ids.size(), kNaN);
  scan.assign(Row(row.logits));
  const std::int64_t count = scan.top(ids.data(), values.data());

  std::vector<std::int32_t> expected = test::reference_order(row.logits);
  expected.resize(std::min<std::size_t>(expected.size(), ids.size()));
  ASSERT_EQ(count, static_cast<std::int64_t>(expected.size())) << row.name << " k " << k;
  ids.resize(expected.size());
  ASSERT_EQ(ids, expected) << row.name << " width " << row.logits.size() << " k " << k;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(values[i], row.logits[static_cast<std::size_t>(ids[i])]);
  }
}

TEST(RowScan, TopIsExactWithTiesByLowerId) {
  for (const std::int64_t width : {1, 2, 31, 33, 300, 511, 512, 513, 2000, 4095, 4097, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      for (const std::int64_t k : {1, 2, 16, 64, 255, 300, 1000}) {
        if (k <= width) expect_top(row, k);
      }
    }
  }
}

TEST(RowScan, TopTakesTheWholeRow) {
  for (const std::int64_t width : {1, 7, 33, 700, 5000}) {
    for (const test::Row& row : test::hard_rows(width)) expect_top(row, width);
  }
}

// All that reaches the bound lies in few columns or blocks, tied or in the worst order.
TEST(RowScan, TopWithstandsAdversaries) {
  base::Random random(3);
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{RowColumns::kColumns},
                                  std::int64_t{RowColumns::kBlock}, std::int64_t{16384}}) {
    std::vector<float> tied = test::random_row(40000, 1, 0, random), rising = tied;
    for (std::size_t i = 0, n = 0; n < 6000; ++n, i += static_cast<std::size_t>(step)) {
      if (i >= tied.size()) i = i % tied.size() + 1;
      tied[i] = 9.0f;
      rising[i] = 9.0f + static_cast<float>(n);
    }
    for (const std::int64_t k : {1, 64, 700}) {
      expect_top({"tied", tied}, k);
      expect_top({"rising", rising}, k);
    }
  }
}

TEST(RowScan, AsksForNothing) {
  const std::vector<float> row(40, 1.0f);
  RowScan scan(40, 0);
  scan.assign(Row(row));
  EXPECT_EQ(scan.top(nullptr, nullptr), 0);
}

}  // namespace
}  // namespace dgap::runtime
