#include "trainer/domain_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/data.hpp"

namespace dgap::trainer {
namespace {

/// Four sites of 16 steps: two of novels, one of code, one of chat.
schemas::TracePart four_sites() {
  auto trace = testing::make_trace({});
  const char* domains[] = {"novels", "novels", "code", "chat"};
  for (std::size_t u = 0; u < 4; ++u) trace.units[u].domain = domains[u];
  return trace;
}

std::vector<double> by_site(const std::vector<double>& values) {
  std::vector<double> steps;
  for (const double value : values) steps.insert(steps.end(), 16, value);
  return steps;
}

TEST(DomainGuard, MeansAndErrorsComeFromWholeSites) {
  const auto domains =
      domain_figures(four_sites(), by_site({1.0, 1.0, 0.5, 0.1}), by_site({0.8, 1.0, 0.5, 0.05}));
  ASSERT_EQ(domains.size(), 3u);
  const schemas::DomainFigures& novels = domains.at("novels");
  EXPECT_EQ(novels.steps, 32);
  EXPECT_DOUBLE_EQ(novels.kl_before, 1.0);
  EXPECT_DOUBLE_EQ(novels.kl_after, 0.9);
  EXPECT_NEAR(novels.standard_error, 0.1, 1e-12);  // of two differences, -.2 and 0
  EXPECT_EQ(domains.at("code").standard_error, 0.0);
  EXPECT_EQ(harmed_domains(domains), "");
}

TEST(DomainGuard, HarmedIsBeyondTwoErrorsAndTwoPercent) {
  const auto harmed = [](std::vector<double> after) {
    return harmed_domains(
        domain_figures(four_sites(), by_site({1.0, 1.0, 0.5, 0.1}), by_site(after)));
  };
  EXPECT_EQ(harmed({1.019, 1.019, 0.5, 0.1}), "");  // less than 2 %
  EXPECT_THAT(harmed({1.03, 1.03, 0.5, 0.1}), ::testing::HasSubstr("novels (KL 1 -> 1.0"));
  EXPECT_EQ(harmed({1.3, 0.9, 0.5, 0.1}), "");  // 10 % on average, error 20 %
  EXPECT_THAT(harmed({0.5, 0.5, 0.52, 0.11}),
              ::testing::AllOf(::testing::HasSubstr("chat (KL 0.1"),
                               ::testing::HasSubstr("), code (KL 0.5 -> 0.5")));
}

}  // namespace
}  // namespace dgap::trainer
