#include <gtest/gtest.h>

#include "calibrator/domain_guard.hpp"

namespace dgap::calibrator {
namespace {

struct Row {
  std::int32_t site;
  float risk;
  double before, after;
};

/// Two sites of novels, one of code.
class DomainGuard : public ::testing::Test {
 protected:
  schemas::ThresholdResult guarded(const std::vector<Row>& rows, double tau,
                                   const std::string& policy = "fixed") {
    schemas::TracePart sites;
    sites.units.resize(3);
    const char* domains[] = {"novels", "novels", "code"};
    for (std::size_t u = 0; u < 3; ++u) sites.units[u].domain = domains[u];
    std::vector<StepOutcome> steps;
    for (const Row& row : rows) {
      sites.step_unit.push_back(row.site);
      StepOutcome& step = steps.emplace_back();
      step.risk = row.risk, step.before.kl = row.before, step.after.kl = row.after;
    }
    schemas::ThresholdResult result = choose_threshold(steps, {policy, tau, 0.0});
    guard_domains(sites, steps, result);
    return result;
  }
};

TEST_F(DomainGuard, MeansAndErrorsComeFromWholeSites) {
  const auto r = guarded(
      {{0, .9f, 1, .8}, {0, .9f, 1, .8}, {1, .9f, 1, 1}, {1, .9f, 1, 1}, {2, .2f, .5, .4}}, .5);
  EXPECT_FALSE(r.raised_from);
  const schemas::DomainFigures& novels = r.domains.at("novels");
  EXPECT_EQ(novels.steps, 4);
  EXPECT_DOUBLE_EQ(novels.kl_before, 1.0);
  EXPECT_DOUBLE_EQ(novels.kl_after, 0.9);
  EXPECT_NEAR(novels.standard_error, 0.1, 1e-12);             // of two differences, -.2 and 0
  const schemas::DomainFigures& code = r.domains.at("code");  // below tau
  EXPECT_DOUBLE_EQ(code.kl_after, 0.5);
  EXPECT_DOUBLE_EQ(code.kl_always, 0.4);
  EXPECT_EQ(code.standard_error, 0.0);
}

/// What repairs novels harms code, whose steps score lower: tau is raised above them.
TEST_F(DomainGuard, RaisesTauUntilNoDomainIsWorse) {
  const std::vector<Row> rows = {
      {0, .9f, 1, .5}, {1, .8f, 1, .5}, {2, .3f, .1, .2}, {2, .4f, .1, .2}};
  const auto r = guarded(rows, 0.0);
  EXPECT_EQ(r.raised_from, 0.0);
  EXPECT_FLOAT_EQ(static_cast<float>(r.tau), 0.4f);
  EXPECT_EQ(r.mode, "threshold");
  EXPECT_TRUE(r.domains.at("code").harmed);
  EXPECT_DOUBLE_EQ(r.domains.at("code").kl_after, 0.1);
  EXPECT_DOUBLE_EQ(r.domains.at("code").kl_always, 0.2);
  EXPECT_DOUBLE_EQ(r.domains.at("novels").kl_after, 0.5);
  EXPECT_FALSE(guarded(rows, 0.5).raised_from);
  EXPECT_FALSE(guarded(rows, 0.5).domains.at("code").harmed);
}

TEST_F(DomainGuard, SwitchesOffWhereNothingIsLeftToCorrect) {
  const auto r = guarded({{0, .5f, 1, .5}, {1, .5f, 1, .5}, {2, .9f, .1, .2}}, 0.0);
  EXPECT_EQ(r.raised_from, 0.0);
  EXPECT_EQ(r.mode, "off");
  EXPECT_DOUBLE_EQ(r.domains.at("novels").kl_after, 1.0);
  EXPECT_DOUBLE_EQ(r.domains.at("novels").kl_always, 0.5);
}

TEST_F(DomainGuard, HarmIsBeyondTwoErrorsAndTwoPercent) {
  const auto harmed = [&](double first, double second, double code) {
    const auto r = guarded({{0, .9f, 1, first}, {1, .9f, 1, second}, {2, .9f, .5, code}}, 0.0);
    return std::pair(r.domains.at("novels").harmed, r.domains.at("code").harmed);
  };
  using Pair = std::pair<bool, bool>;
  EXPECT_EQ(harmed(1.019, 1.019, .509), Pair(false, false));  // less than 2 %
  EXPECT_EQ(harmed(1.03, 1.03, .5), Pair(true, false));
  EXPECT_EQ(harmed(1.3, .9, .5), Pair(false, false));  // 10 % on average, error 20 %
  EXPECT_EQ(harmed(.5, .5, .52), Pair(false, true));
}

}  // namespace
}  // namespace dgap::calibrator
