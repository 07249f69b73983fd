#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "calibrator/threshold_curve.hpp"
#include "statistics/risk_control.hpp"

namespace dgap::calibrator {
namespace {

using Steps = std::vector<StepOutcome>;

StepOutcome step(float risk, double kl_before, double kl_after) {
  StepOutcome outcome;
  outcome.risk = risk;
  outcome.before = {kl_before, 0.5 * kl_before, 3.0 + kl_before, false};
  outcome.after = {kl_after, 0.5 * kl_after, 3.0 + kl_after, kl_after < kl_before};
  return outcome;
}

/// Scores with ties; corrections that help more where the score is higher.
Steps random_steps(int count, int distinct, double help, std::uint64_t seed) {
  base::Random random(seed);
  Steps steps;
  for (int i = 0; i < count; ++i) {
    const float risk = static_cast<float>(random.below(distinct)) / static_cast<float>(distinct);
    const double kl = random.uniform();
    steps.push_back(
        step(risk, kl, std::max(0.0, kl - help * (risk - 0.4) + 0.1 * random.normal())));
  }
  return steps;
}

struct Means {
  double rate = 0, drift = 0, kl = 0, top1 = 0, nll = 0, worse = 0;
};

Means direct(const Steps& steps, double tau) {
  Means m;
  for (const StepOutcome& s : steps) {
    const bool corrected = s.risk > tau;
    const auto& metrics = corrected ? s.after : s.before;
    m.rate += corrected, m.drift += metrics.drift, m.kl += metrics.kl;
    m.top1 += metrics.top1, m.nll += metrics.nll;
    m.worse += corrected && s.after.kl > s.before.kl;
  }
  for (double* mean : {&m.rate, &m.drift, &m.kl, &m.top1, &m.nll, &m.worse}) {
    *mean /= static_cast<double>(steps.size());
  }
  return m;
}

schemas::ThresholdConfig tradeoff(double cost) { return {"tradeoff", 0.6, cost}; }

TEST(ThresholdCurve, MatchesDirectMeansAtEveryPoint) {
  for (const int distinct : {1, 7, 100, 3000}) {
    const Steps steps = random_steps(2000, distinct, 1.0, 3);
    const schemas::ThresholdResult result = choose_threshold(steps, tradeoff(0.01));
    const schemas::ThresholdCurve& curve = result.curve;
    ASSERT_LE(curve.tau.size(), 513u);
    EXPECT_EQ(curve.tau.front(), 0.0);
    EXPECT_EQ(curve.tau.back(), 1.0);
    EXPECT_TRUE(std::is_sorted(curve.tau.begin(), curve.tau.end()));
    EXPECT_EQ(std::adjacent_find(curve.tau.begin(), curve.tau.end()), curve.tau.end());
    EXPECT_TRUE(std::count(curve.tau.begin(), curve.tau.end(), result.tau));
    for (std::size_t i = 0; i < curve.tau.size(); ++i) {
      const Means m = direct(steps, curve.tau[i]);
      EXPECT_NEAR(curve.rate[i], m.rate, 1e-12);
      EXPECT_NEAR(curve.drift[i], m.drift, 1e-12);
      EXPECT_NEAR(curve.kl[i], m.kl, 1e-12);
      EXPECT_NEAR(curve.top1_agreement[i], m.top1, 1e-12);
      EXPECT_NEAR(curve.perplexity[i], std::exp(m.nll), 1e-9);
      EXPECT_NEAR(curve.kl_worse_share[i], m.worse, 1e-12);
    }
    EXPECT_NEAR(result.kl_before, direct(steps, 1.0).kl, 1e-12);
    EXPECT_NEAR(result.drift_before, direct(steps, 1.0).drift, 1e-12);
  }
}

TEST(ThresholdCurve, TradeoffBeatsEveryOtherThreshold) {
  for (const double cost : {0.0, 0.01, 0.1}) {
    const Steps steps = random_steps(1000, 50, 0.8, 5);
    const schemas::ThresholdResult result = choose_threshold(steps, tradeoff(cost));
    const auto gain = [&](double tau) {
      const Means m = direct(steps, tau);
      return result.kl_before - m.kl - cost * m.rate;
    };
    ASSERT_EQ(result.mode, "threshold");
    EXPECT_GT(gain(result.tau), 0.0);
    for (int i = 0; i <= 200; ++i) EXPECT_GE(gain(result.tau) + 1e-12, gain(i / 200.0));
  }
}

TEST(ThresholdCurve, NeverSplitsEqualScores) {
  // Scores .9 .9 .9 .8 with labels 1 0 0 1, a correction of a positive gaining 1, of a negative -1.
  const Steps steps = {step(.9f, 2, 1), step(.9f, 2, 3), step(.9f, 2, 3), step(.8f, 2, 1)};
  const auto precision_at = [&](double tau) {
    const schemas::ThresholdResult r = choose_threshold(steps, {"fixed", tau, 0.0});
    const auto at = std::find(r.curve.tau.begin(), r.curve.tau.end(), tau) - r.curve.tau.begin();
    // Of n corrected steps those whose KL did not grow.
    return r.curve.rate[at] == 0.0 ? NAN : 1.0 - r.curve.kl_worse_share[at] / r.curve.rate[at];
  };
  EXPECT_EQ(precision_at(0.5), 0.5);
  EXPECT_NEAR(precision_at(.8f), 1.0 / 3.0, 1e-15);
  EXPECT_NEAR(precision_at(0.85), 1.0 / 3.0, 1e-15);
  EXPECT_TRUE(std::isnan(precision_at(.9f)));
  EXPECT_TRUE(std::isnan(precision_at(0.95)));
  const schemas::ThresholdResult r = choose_threshold(steps, tradeoff(0.0));
  EXPECT_EQ(r.curve.rate, (std::vector<double>{1.0, 0.75, 0.0, 0.0}));  // 0, .8, .9, 1
  EXPECT_EQ(r.mode, "off");  // all: gain 0, not more than none
}

TEST(ThresholdCurve, TiesGoToTheHigherTau) {
  // Correcting the .5s changes nothing, so .5 and below gain the same: .5 is taken.
  const Steps steps = {step(.9f, 2, 1), step(.5f, 1, 1)};
  const schemas::ThresholdResult r = choose_threshold(steps, tradeoff(0.0));
  EXPECT_EQ(r.tau, .5);
  EXPECT_EQ(r.mode, "threshold");
}

TEST(ThresholdCurve, IsOffWhereNothingIsGained) {
  const Steps harm = random_steps(500, 40, -2.0, 7);
  Steps worse = harm, same = harm;
  for (StepOutcome& s : worse) s.after = {s.before.kl + 0.1, 0, 0, false};
  for (StepOutcome& s : same) s.after = s.before;
  EXPECT_EQ(choose_threshold(worse, tradeoff(0.0)).mode, "off");
  EXPECT_EQ(choose_threshold(same, tradeoff(0.0)).mode, "off");  // not by a rounding error either
  EXPECT_EQ(choose_threshold(worse, {"fixed", 0.3, 0.0}).mode, "off");
  EXPECT_EQ(choose_threshold(same, {"fixed", 0.3, 0.0}).mode, "threshold");
  EXPECT_EQ(choose_threshold(worse, {"fixed", 1.0, 0.0}).mode, "threshold");  // corrects nothing
  EXPECT_EQ(choose_threshold(worse, {"fixed", 0.3, 0.0}).tau, 0.3);
}

TEST(ThresholdCurve, ScoresAtTheEndsAreOrdinary) {
  const Steps steps = {step(0.0f, 2, 1), step(1.0f, 2, 1), step(1.0f, 2, 1)};
  const schemas::ThresholdResult r = choose_threshold(steps, tradeoff(0.0));
  EXPECT_EQ(r.curve.tau, (std::vector<double>{0.0, 1.0}));
  EXPECT_NEAR(r.curve.rate[0], 2.0 / 3.0, 1e-15);  // a risk of 0 is never above tau
  EXPECT_EQ(r.tau, 0.0);
}

TEST(ThresholdCurve, ThinsButKeepsEndsAndChoice) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Steps steps = random_steps(5000, 1 << 20, 0.2 * static_cast<double>(seed), seed);
    const schemas::ThresholdResult r = choose_threshold(steps, tradeoff(0.01));
    EXPECT_EQ(r.curve.tau.size(), 513u);
    EXPECT_EQ(r.curve.tau.front(), 0.0);
    EXPECT_EQ(r.curve.tau.back(), 1.0);
    EXPECT_EQ(std::count(r.curve.tau.begin(), r.curve.tau.end(), r.tau), 1);
    EXPECT_TRUE(std::is_sorted(r.curve.tau.begin(), r.curve.tau.end()));
  }
}

schemas::ThresholdConfig with_policy(const std::string& policy) {
  schemas::ThresholdConfig config;
  config.policy = policy;
  return config;
}

TEST(ThresholdCurve, BudgetIsTheBestRestorationWithinTheRate) {
  const Steps steps = random_steps(1500, 60, 0.8, 11);
  schemas::ThresholdConfig config = with_policy("budget");
  double last = 0.0;
  for (const double budget : {0.0, 0.1, 0.35, 1.0}) {
    config.budget = budget;
    const schemas::ThresholdResult r = choose_threshold(steps, config);
    const Means chosen = direct(steps, r.tau);
    EXPECT_LE(chosen.rate, budget);
    EXPECT_EQ(r.mode, budget == 0.0 ? "off" : "threshold");
    EXPECT_GE(r.kl_before - chosen.kl, last - 1e-12);  // a larger budget restores no less
    last = r.kl_before - chosen.kl;
    for (int i = 0; i <= 240; ++i) {
      const Means other = direct(steps, i / 240.0);
      if (other.rate <= budget) {
        EXPECT_GE(other.kl, chosen.kl - 1e-12);
      }
    }
  }
  EXPECT_GT(last, 0.05);
}

TEST(ThresholdCurve, TargetIsTheLeastRateThatReachesTheDrift) {
  const Steps steps = random_steps(1500, 60, 0.8, 13);
  schemas::ThresholdConfig config = with_policy("target");
  const double before = direct(steps, 1.0).drift;
  config.target = before - 0.03;
  const schemas::ThresholdResult r = choose_threshold(steps, config);
  ASSERT_EQ(r.mode, "threshold");
  EXPECT_LE(direct(steps, r.tau).drift, config.target + 1e-12);
  for (int i = 0; i <= 240; ++i) {
    const Means other = direct(steps, i / 240.0);
    if (other.drift <= config.target) {
      EXPECT_GE(other.rate, direct(steps, r.tau).rate);
    }
  }
  config.target = before + 0.1;  // reached already
  EXPECT_EQ(choose_threshold(steps, config).mode, "off");
  config.target = 0.0;  // never: the least drift
  const double least = direct(steps, choose_threshold(steps, config).tau).drift;
  for (int i = 0; i <= 240; ++i) EXPECT_GE(direct(steps, i / 240.0).drift, least - 1e-12);
}

/// Books of `per_book` steps; a book's corrections are harmful with a probability of its own, and
/// always or never where `extreme`, its risks all equal. The expected share made worse at tau is
/// (1 - tau) / 2, or 1 - tau.
struct Books {
  Steps steps;
  statistics::Clusters clusters;
};
Books random_books(int count, int per_book, bool extreme, base::Random& random) {
  Books books;
  books.clusters.count = count;
  for (int b = 0; b < count; ++b) {
    const double harm = extreme ? 1.0 : random.uniform();
    const auto shared = static_cast<float>(random.uniform());
    for (int t = 0; t < per_book; ++t) {
      const float risk = extreme ? shared : static_cast<float>(random.uniform());
      books.steps.push_back(step(risk, 1.0, random.uniform() < harm ? 1.01 : 0.5));
      books.clusters.of_step.push_back(b);
    }
  }
  return books;
}

TEST(WorseShare, IsGuaranteedForTheProbabilityThatItStates) {
  base::Random random(17);
  constexpr int kRuns = 400;
  for (const bool extreme : {false, true}) {
    schemas::ThresholdConfig config = with_policy("fixed");  // as low as the guarantee allows
    config.value = 0.0;
    config.worse_share = 0.3;
    config.worse_confidence = 0.8;
    int violated = 0, corrects = 0;
    for (int run = 0; run < kRuns; ++run) {
      const Books books = random_books(30, extreme ? 1 : 40, extreme, random);
      const schemas::ThresholdResult r = choose_threshold(books.steps, config, books.clusters);
      ASSERT_EQ(r.worse.tau, r.tau);
      violated += (1.0 - r.tau) * (extreme ? 1.0 : 0.5) > config.worse_share ? 1 : 0;
      corrects += r.tau < 0.95 ? 1 : 0;
    }
    EXPECT_LE(violated, 0.2 * kRuns + 3 * std::sqrt(0.2 * 0.8 * kRuns));
    EXPECT_GT(corrects, 0.9 * kRuns);  // and it is no guarantee by doing nothing
  }
}

TEST(WorseShare, WeighsBooksEquallyAndBoundsEveryPoint) {
  base::Random random(19);
  Books books = random_books(20, 10, false, random);
  for (int t = 0; t < 200; ++t) {  // one long book, always made worse
    books.steps.push_back(step(0.9f, 1.0, 2.0));
    books.clusters.of_step.push_back(0);
  }
  const schemas::ThresholdResult r =
      choose_threshold(books.steps, with_policy("tradeoff"), books.clusters);
  EXPECT_EQ(r.worse.books, 20);
  EXPECT_FALSE(r.worse.limit.has_value());
  for (std::size_t i = 0; i < r.curve.tau.size(); ++i) {
    double mean = 0.0;
    for (int b = 0; b < 20; ++b) {
      double worse = 0.0, all = 0.0;
      for (std::size_t s = 0; s < books.steps.size(); ++s) {
        if (books.clusters.of_step[s] != b) continue;
        all += 1.0;
        worse += books.steps[s].risk > r.curve.tau[i] &&
                 books.steps[s].after.kl > books.steps[s].before.kl;
      }
      mean += worse / all / 20.0;
    }
    EXPECT_NEAR(r.curve.worse_by_book[i], mean, 1e-12);
    EXPECT_NEAR(r.curve.worse_bound[i], statistics::upper_bound(mean, 20, 0.1), 1e-7);
  }
}

TEST(WorseShare, NothingIsPromisedWithoutBooks) {
  const Steps steps = random_steps(100, 10, 1.0, 1);
  const schemas::ThresholdResult r = choose_threshold(steps, with_policy("tradeoff"));
  EXPECT_EQ(r.worse.books, 0);
  EXPECT_FALSE(r.worse.limit.has_value());
  for (const double bound : r.curve.worse_bound) EXPECT_TRUE(std::isnan(bound));
}

TEST(Escalation, IsTheLowestThresholdThatKeepsThePrecision) {
  base::Random random(23);
  Steps steps(800);
  for (StepOutcome& s : steps) {
    s.escalation = static_cast<float>(1 + random.below(30)) / 32.0f;  // with ties
    s.uncovered = random.uniform() < s.escalation * s.escalation;
  }
  const auto at = [&](double tau) {
    double found = 0.0, escalated = 0.0, all = 0.0;
    for (const StepOutcome& s : steps) {
      all += s.uncovered, escalated += s.escalation > tau;
      found += s.uncovered && s.escalation > tau;
    }
    return schemas::Escalation{tau, escalated / 800.0, found / escalated, found / all};
  };
  for (const double precision : {0.0, 0.4, 0.6, 0.8}) {
    const schemas::Escalation e = choose_escalation(steps, precision);
    const schemas::Escalation same = at(e.tau);
    EXPECT_NEAR(e.precision, same.precision, 1e-12);
    EXPECT_NEAR(e.recall, same.recall, 1e-12);
    EXPECT_NEAR(e.rate, same.rate, 1e-12);
    EXPECT_GE(e.precision, precision);
    for (int i = 0; i < 64; ++i) {
      const double lower = i / 64.0;
      if (lower < e.tau) {
        EXPECT_TRUE(at(lower).precision < precision || at(lower).rate == e.rate);
      }
    }
  }
  const schemas::Escalation none = choose_escalation(steps, 1.0);
  if (none.tau == 1.0) {
    EXPECT_EQ(none.rate, 0.0);
  }
}

TEST(Escalation, EscalatedStepsAreNeverCorrected) {
  Steps steps = random_steps(300, 20, 0.8, 29);
  for (std::size_t i = 0; i < steps.size(); i += 3) steps[i].escalated = true;
  const schemas::ThresholdResult r = choose_threshold(steps, with_policy("tradeoff"));
  for (StepOutcome& s : steps) s.after = s.escalated ? s.before : s.after;
  for (std::size_t i = 0; i < r.curve.tau.size(); ++i) {
    double rate = 0.0;
    for (const StepOutcome& s : steps) rate += !s.escalated && s.risk > r.curve.tau[i];
    EXPECT_NEAR(r.curve.rate[i], rate / 300.0, 1e-12);
    EXPECT_NEAR(r.curve.kl[i], direct(steps, r.curve.tau[i]).kl, 1e-12);
  }
}

}  // namespace
}  // namespace dgap::calibrator
