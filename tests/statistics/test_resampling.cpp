#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "statistics/resampling.hpp"
#include "tests/statistics/random_trace.hpp"

namespace dgap::statistics {
namespace {

schemas::TracePart trace_of_books(int books, int units_per_book) {
  schemas::TracePart part;
  for (int b = 0; b < books; ++b) {
    for (int u = 0; u < units_per_book; ++u) {
      schemas::TraceUnit unit;
      unit.book = std::to_string(b);
      for (int t = 0; t < 3; ++t) part.step_unit.push_back(static_cast<int>(part.units.size()));
      part.units.push_back(unit);
    }
  }
  return part;
}

TEST(Clusters, AreBooksWhereThereAreTwenty) {
  const Clusters books = clusters(trace_of_books(20, 2));
  EXPECT_EQ(books.count, 20);
  EXPECT_FALSE(books.approximate);
  EXPECT_EQ(books.of_step.front(), 0);
  EXPECT_EQ(books.of_step[6], 1);  // three steps of each of two units
  EXPECT_EQ(books.of_step.back(), 19);

  const Clusters sites = clusters(trace_of_books(19, 2));
  EXPECT_EQ(sites.count, 38);
  EXPECT_TRUE(sites.approximate);
  EXPECT_EQ(sites.of_step[3], 1);
}

TEST(BootstrapMean, CoversTheMeanAndWidensWithClusters) {
  // 30 clusters of 50 equal values: the spread of the mean is that of 30 draws, not of 1500.
  base::Random random(5);
  Clusters grouped, alone;
  std::vector<double> values;
  for (int c = 0; c < 30; ++c) {
    const double value = random.normal();
    for (int i = 0; i < 50; ++i) {
      grouped.of_step.push_back(c);
      alone.of_step.push_back(static_cast<int>(values.size()));
      values.push_back(value);
    }
  }
  grouped.count = 30, alone.count = 1500;
  const std::vector<double> levels = {0.05, 0.5, 0.95};
  const auto wide = bootstrap_mean(values, grouped, 1000, 1, levels);
  const auto narrow = bootstrap_mean(values, alone, 1000, 1, levels);
  EXPECT_NEAR((wide[2] - wide[0]) / (narrow[2] - narrow[0]), std::sqrt(50.0), 1.0);
  double mean = 0.0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  EXPECT_NEAR(wide[1], mean, 0.05);
  EXPECT_EQ(wide, bootstrap_mean(values, grouped, 1000, 1, levels));
  EXPECT_NE(wide, bootstrap_mean(values, grouped, 1000, 2, levels));
}

TEST(BootstrapMean, OneClusterHasNoSpreadAndNoneIsNaN) {
  Clusters one;
  one.of_step = {0, 0};
  one.count = 1;
  EXPECT_EQ(
      bootstrap_mean(std::vector<double>{1.0, 2.0}, one, 10, 1, std::vector<double>{0.0, 1.0}),
      (std::vector<double>{1.5, 1.5}));
  EXPECT_TRUE(std::isnan(bootstrap_mean({}, Clusters{}, 10, 1, std::vector<double>{0.5})[0]));
}

TEST(Auc, CountsTiesHalf) {
  using Labels = std::vector<std::uint8_t>;
  EXPECT_EQ(auc(std::vector<float>{.1f, .2f, .3f, .4f}, Labels{0, 0, 1, 1}), 1.0);
  EXPECT_EQ(auc(std::vector<float>{.1f, .2f, .3f, .4f}, Labels{1, 1, 0, 0}), 0.0);
  EXPECT_EQ(auc(std::vector<float>{.5f, .5f, .5f}, Labels{1, 0, 1}), 0.5);
  // .9 .9 .9 .8 with labels 1 0 0 1: positives .9 and .8, negatives .9 and .9.
  EXPECT_EQ(auc(std::vector<float>{.9f, .9f, .9f, .8f}, Labels{1, 0, 0, 1}), 0.25);
  EXPECT_TRUE(std::isnan(auc(std::vector<float>{.9f, .8f}, Labels{1, 1})));
  EXPECT_TRUE(std::isnan(auc({}, {})));
  EXPECT_TRUE(std::isnan(auc(std::vector<float>{std::nanf(""), .8f}, Labels{1, 0})));
}

TEST(Auc, MatchesAllPairs) {
  base::Random random(2);
  std::vector<float> scores(300);
  std::vector<std::uint8_t> labels(300);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = static_cast<float>(random.below(40)) / 40.0f;
    labels[i] = random.below(3) == 0;
  }
  double won = 0.0, pairs = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (!labels[i] || labels[j]) continue;
      won += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
      pairs += 1.0;
    }
  }
  EXPECT_DOUBLE_EQ(auc(scores, labels), won / pairs);
}

}  // namespace
}  // namespace dgap::statistics
