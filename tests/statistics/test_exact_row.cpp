#include <gtest/gtest.h>

#include <cmath>

#include "statistics/exact_row.hpp"
#include "tests/runtime/rows.hpp"

namespace dgap::statistics {
namespace {

using test::kInfinity;
using test::kNaN;

TEST(ExactRow, AgreesWithExtendedPrecision) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 33, 1000, 49152}) {
    for (const test::Row& row : test::hard_rows(width)) {
      const ExactRow found = exact_row(row.logits);
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

TEST(ExactRow, CountsFiniteEntries) {
  std::vector<float> row(1003, -kInfinity);
  row[0] = row[500] = row[1002] = 2.0f;
  const ExactRow found = exact_row(row);
  EXPECT_EQ(found.finite, 3);
  EXPECT_NEAR(found.entropy, std::log(3.0), 1e-7);
  EXPECT_NEAR(found.lse, 2.0 + std::log(3.0), 1e-15);
}

TEST(ExactRow, RefusesWhatHasNoDistribution) {
  for (const std::size_t width : {1u, 16u, 40u}) {
    for (std::size_t place = 0; place < width; ++place) {
      for (const float bad : {kNaN, -kNaN, kInfinity}) {
        std::vector<float> row(width, 1.0f);
        row[place] = bad;
        EXPECT_FALSE(exact_row(row).valid) << width << " " << place;
      }
    }
    EXPECT_FALSE(exact_row(std::vector<float>(width, -kInfinity)).valid);
  }
  EXPECT_FALSE(exact_row({}).valid);
}

}  // namespace
}  // namespace dgap::statistics
