#include <gtest/gtest.h>

#include <cmath>

#include "runtime/window.hpp"
#include "tests/runtime/rows.hpp"

namespace dgap::runtime {
namespace {

using test::kInfinity;
using test::kNaN;

TEST(RowStatistics, AgreesWithExtendedPrecision) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 33, 1000, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      const RowStatistics found = row_statistics(row.logits);
      const test::Statistics exact = test::reference_statistics(row.logits);
      ASSERT_TRUE(found.valid) << row.name;
      const double scale = std::max(1.0, static_cast<double>(std::abs(exact.lse)));
      EXPECT_NEAR(found.lse, static_cast<double>(exact.lse), 1e-13 * scale) << row.name << width;
      // One rounding to float, and the f64 sums' own error.
      EXPECT_NEAR(found.entropy, static_cast<double>(exact.entropy),
                  6e-8 * static_cast<double>(exact.entropy) + 1e-12)
          << row.name << " " << width;
      EXPECT_GE(found.entropy, 0.0f);
    }
  }
}

TEST(RowStatistics, CountsFiniteEntries) {
  std::vector<float> row(1003, -kInfinity);
  row[0] = row[500] = row[1002] = 2.0f;
  const RowStatistics found = row_statistics(row);
  EXPECT_EQ(found.finite, 3);
  EXPECT_NEAR(found.entropy, std::log(3.0), 1e-7);
  EXPECT_NEAR(found.lse, 2.0 + std::log(3.0), 1e-15);
}

TEST(RowStatistics, RefusesWhatHasNoDistribution) {
  for (const std::size_t width : {1u, 16u, 40u}) {
    for (std::size_t place = 0; place < width; ++place) {
      for (const float bad : {kNaN, -kNaN, kInfinity}) {
        std::vector<float> row(width, 1.0f);
        row[place] = bad;
        EXPECT_FALSE(row_statistics(row).valid) << width << " " << place;
      }
    }
    EXPECT_FALSE(row_statistics(std::vector<float>(width, -kInfinity)).valid);
  }
  EXPECT_FALSE(row_statistics({}).valid);
}

void expect_top_k(const test::Row& row, std::int64_t k) {
  const auto width = static_cast<std::int64_t>(row.logits.size());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(k), -1);
  std::vector<float> values(ids.size(), kNaN);
  // Bytes after the scratch must stay as they are.
  const std::size_t bytes = top_k_scratch(width, k);
  std::vector<std::uint64_t> scratch(bytes / 8 + 3, 0xabababababababab);
  const std::int64_t count = top_k(row.logits, k, ids.data(), values.data(), scratch.data());
  EXPECT_EQ(scratch[bytes / 8 + 1], 0xabababababababab);

  std::vector<std::int32_t> expected = test::reference_order(row.logits);
  expected.resize(std::min<std::size_t>(expected.size(), ids.size()));
  ASSERT_EQ(count, static_cast<std::int64_t>(expected.size())) << row.name << " k " << k;
  ids.resize(expected.size());
  ASSERT_EQ(ids, expected) << row.name << " width " << width << " k " << k;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(values[i], row.logits[static_cast<std::size_t>(ids[i])]);
  }
}

TEST(TopK, IsExactWithTiesByLowerId) {
  for (const std::int64_t width : {1, 2, 31, 32, 33, 300, 511, 512, 513, 2000, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      for (const std::int64_t k : {1, 2, 16, 64, 255, 300, 1000}) {
        if (k <= width) expect_top_k(row, k);
      }
    }
  }
}

TEST(TopK, TakesTheWholeRow) {
  for (const std::int64_t width : {1, 7, 33, 700, 5000}) {
    for (const test::Row& row : test::hard_rows(width)) expect_top_k(row, width);
  }
}

TEST(TopK, AsksForNothing) {
  std::uint64_t scratch[512];
  EXPECT_EQ(top_k(std::vector<float>(40, 1.0f), 0, nullptr, nullptr, scratch), 0);
}

TEST(AdaptiveWindow, StopsWhereTheMassIsHeld) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.125f)};
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.0), 1);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.49), 1);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.51), 2);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.74), 2);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.87), 3);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.99), 3);  // they hold less: all of them
  EXPECT_EQ(adaptive_window(logits, 0.0, 1.0), 3);
  EXPECT_EQ(adaptive_window({logits.data(), 1}, 0.0, 1.0), 1);
}

}  // namespace
}  // namespace dgap::runtime
