#include <gtest/gtest.h>

#include "collector/work.hpp"

namespace dgap::collector {
namespace {

TEST(Work, RowsSeeThemselvesAndWhatIsBefore) {
  const Work work = rows_from(10, 3);
  EXPECT_EQ(work.rows, 3);
  EXPECT_EQ(work.attended, 11 + 12 + 13);
}

TEST(Rate, GoesThroughBothMeasurements) {
  const Rate rate{2e-3, 5e-7};
  const Work first = rows_from(0, 512), second = rows_from(0, 2048);
  const Rate found = rate_through(first, rate.seconds(first), second, rate.seconds(second));
  EXPECT_NEAR(found.per_row, rate.per_row, 1e-12);
  EXPECT_NEAR(found.per_attended, rate.per_attended, 1e-15);
  const Work longer = rows_from(0, 65536);
  EXPECT_NEAR(found.seconds(longer), 2e-3 * 65536 + 5e-7 * 65536.0 * 65537.0 / 2, 1e-6);
}

TEST(Rate, NoiseNeverMakesItNegative) {
  const Work first = rows_from(0, 512), second = rows_from(0, 2048);
  const Rate faster = rate_through(first, 10.0, second, 12.0);
  EXPECT_EQ(faster.per_attended, 0.0);
  EXPECT_NEAR(faster.seconds(second), 12.0, 1e-9);
  const Rate slower = rate_through(first, 0.01, second, 12.0);
  EXPECT_NEAR(slower.per_row, 0.0, 1e-12);
  EXPECT_NEAR(slower.seconds(second), 12.0, 1e-9);
}

}  // namespace
}  // namespace dgap::collector
