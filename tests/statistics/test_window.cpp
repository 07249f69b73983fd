#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "statistics/window.hpp"
#include "tests/statistics/random_trace.hpp"

namespace dgap::statistics {
namespace {

using testing::make_trace;
using testing::RandomTrace;
using testing::row;
using Row = std::span<const float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// |a - b|, 0 for equal infinities (the loss of a masked target).
double difference(double a, double b) { return a == b ? 0.0 : std::abs(a - b); }

/// Everything about one step straight from the definitions, over the whole vocabulary.
struct Direct {
  std::vector<std::int32_t> reference_order, order;
  std::vector<double> p;
  std::set<std::int32_t> candidates, window, u;
  Row reference, quantized;
  std::int32_t target;

  static std::vector<std::int32_t> sorted(Row z) {
    std::vector<std::int32_t> ids(z.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return z[a] > z[b]; });
    return ids;
  }
  static double lse(Row z) {
    long double total = 0.0L;
    const float top = *std::max_element(z.begin(), z.end());
    for (const float x : z) total += std::exp(static_cast<long double>(x) - top);
    return static_cast<double>(top + std::log(total));
  }
  static std::vector<double> softmax(Row z) {
    const double total = lse(z);
    std::vector<double> result;
    for (const float x : z) result.push_back(std::exp(static_cast<double>(x) - total));
    return result;
  }

  Direct(const schemas::TracePart& trace, std::size_t precision, std::int64_t step, double alpha,
         int k)
      : reference(row(trace.reference.logits, step, trace.header.vocab_size)),
        quantized(row(trace.columns[precision].logits, step, trace.header.vocab_size)),
        target(trace.step_target[step]) {
    reference_order = sorted(reference);
    order = sorted(quantized);
    p = softmax(reference);
    double mass = 0.0;
    for (const auto id : reference_order) {
      if (mass < alpha && reference[id] > -kInfinity) candidates.insert(id);
      mass += p[id];
    }
    for (const auto id : order) {
      if (static_cast<int>(window.size()) < k && quantized[id] > -kInfinity) window.insert(id);
    }
    u = candidates;
    u.insert(window.begin(), window.end());
  }

  double coverage() const {
    double mass = 0.0;
    for (const auto id : candidates) mass += window.count(id) ? p[id] : 0.0;
    return mass;
  }
  double drift(Row z) const {
    const std::vector<double> q = softmax(z);
    double p_mass = 0.0, q_mass = 0.0, squares = 0.0;
    for (const auto id : u) p_mass += p[id], q_mass += q[id];
    for (const auto id : u) squares += std::pow(p[id] / p_mass - q[id] / q_mass, 2);
    return std::sqrt(squares);
  }
  double kl(Row z) const {
    const double p_lse = lse(reference), q_lse = lse(z);
    long double sum = 0.0L;
    for (std::size_t i = 0; i < z.size(); ++i) {
      if (p[i] == 0.0) continue;
      sum += p[i] * ((static_cast<long double>(reference[i]) - p_lse) -
                     (static_cast<long double>(z[i]) - q_lse));
    }
    return static_cast<double>(sum);
  }
  double nll(Row z) const { return lse(z) - z[target]; }
  bool top1(Row z) const { return sorted(z).front() == reference_order.front(); }
  /// The quantised row with the window replaced.
  std::vector<float> edited_row(const StepWindow& window_of, Row edited) const {
    std::vector<float> z(quantized.begin(), quantized.end());
    for (int i = 0; i < window_of.k(); ++i) z[window_of.ids()[i]] = edited[i];
    return z;
  }
};

/// One trace of every kind that can go wrong.
std::vector<RandomTrace> kinds() {
  RandomTrace plain, tied, masked, flat, peaked, whole, single, close;
  tied.grid = 1.0f, tied.seed = 2;
  masked.masked = 0.5, masked.vocab = 60, masked.seed = 3;
  flat.spread = 0.3, flat.vocab = 400, flat.top = 65, flat.seed = 4;
  peaked.spread = 8.0, peaked.noise = 3.0, peaked.seed = 5;
  whole.vocab = 24, whole.top = 24, whole.seed = 6;
  single.vocab = 1, single.top = 1, single.seed = 7;
  close.noise = 1e-4, close.seed = 8;
  return {plain, tied, masked, flat, peaked, whole, single, close};
}

std::vector<int> window_sizes(const RandomTrace& kind) {
  const int top = static_cast<int>(std::min<std::int64_t>(kind.top, kind.vocab));
  const int largest = top == kind.vocab ? top : top - 1;
  return {1, std::min(2, largest), (largest + 1) / 2, largest};
}

TEST(StepWindow, MatchesDirectComputation) {
  StepWindow window;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    for (const int k : window_sizes(kind)) {
      for (const double alpha : {0.5, 0.9}) {
        for (std::int64_t step = 0; step < trace.steps(); ++step) {
          const std::size_t precision = step % 2;
          SCOPED_TRACE(::testing::Message()
                       << "seed " << kind.seed << " k " << k << " step " << step);
          window.assign(trace, precision, step, alpha, k);
          const Direct direct(trace, precision, step, alpha, k);
          ASSERT_EQ(window.k(), static_cast<int>(direct.window.size()));
          ASSERT_TRUE(std::equal(window.ids().begin(), window.ids().end(), direct.order.begin()));
          double reference_mass = 0.0, quantized_mass = 0.0;
          const auto q = Direct::softmax(direct.quantized);
          for (int i = 0; i < window.k(); ++i) {
            reference_mass += direct.p[window.ids()[i]];
            quantized_mass += q[window.ids()[i]];
          }
          EXPECT_NEAR(window.reference_mass(), reference_mass, 1e-12);
          EXPECT_NEAR(window.quantized_mass(), quantized_mass, 1e-12);
          EXPECT_NEAR(window.coverage(), direct.coverage(), 1e-12);
          EXPECT_NEAR(window.drift(), direct.drift(direct.quantized), 1e-9);
          EXPECT_LE(difference(window.reference_nll(), direct.nll(direct.reference)), 1e-12);
          const StepWindow::Metrics before = window.before();
          EXPECT_NEAR(before.kl, direct.kl(direct.quantized),
                      1e-7 * before.kl + 1e-12);  // f32 column
          EXPECT_LE(difference(before.nll, direct.nll(direct.quantized)), 1e-12);
          EXPECT_EQ(before.top1, direct.top1(direct.quantized));
        }
      }
    }
  }
}

/// Small and large edits, ties with each other and with tokens outside, mass in and out.
std::vector<float> random_edit(const StepWindow& window, base::Random& random, float grid) {
  const double size = std::vector<double>{0.1, 1.0, 5.0}[random.below(3)];
  const double offset = std::vector<double>{0.0, 0.0, -9.0, 9.0}[random.below(4)];
  std::vector<float> edited;
  for (const float z : window.logits()) {
    edited.push_back(testing::on_grid(z + offset + size * random.normal(), grid));
  }
  return edited;
}

TEST(StepWindow, MetricsAfterAnEditMatchTheFullEditedRow) {
  base::Random random(9);
  StepWindow window;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    for (const int k : window_sizes(kind)) {
      for (std::int64_t step = 0; step < trace.steps(); ++step) {
        SCOPED_TRACE(::testing::Message()
                     << "seed " << kind.seed << " k " << k << " step " << step);
        window.assign(trace, 0, step, 0.9, k);
        const Direct direct(trace, 0, step, 0.9, k);
        const std::vector<float> edited = random_edit(window, random, kind.grid);
        const std::vector<float> full = direct.edited_row(window, edited);
        const StepWindow::Metrics after = window.after(edited);
        const double kl = direct.kl(full);
        EXPECT_NEAR(after.kl - window.before().kl, kl - direct.kl(direct.quantized),
                    1e-7 * window.before().kl + 1e-9);
        EXPECT_NEAR(after.drift, direct.drift(full), 1e-9);
        EXPECT_LE(difference(after.nll, direct.nll(full)), 1e-9);
        EXPECT_EQ(after.top1, direct.top1(full));
      }
    }
  }
}

TEST(StepWindow, NoEditChangesNothingAtAll) {
  StepWindow window;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
      window.assign(trace, 1, step, 0.9, window_sizes(kind).back());
      const StepWindow::Metrics before = window.before(), after = window.after(window.logits());
      EXPECT_EQ(after.kl, before.kl);
      EXPECT_EQ(after.drift, before.drift);
      EXPECT_EQ(after.nll, before.nll);
      EXPECT_EQ(after.top1, before.top1);
    }
  }
}

TEST(StepWindow, EditsFarBeyondTheRangeOfExpStayFinite) {
  const schemas::TracePart trace = make_trace({});
  StepWindow window;
  window.assign(trace, 0, 0, 0.9, 8);
  const Direct direct(trace, 0, 0, 0.9, 8);
  for (const float size : {1000.0f, -1000.0f}) {
    std::vector<float> edited(window.logits().begin(), window.logits().end());
    for (float& z : edited) z += size;
    const std::vector<float> full = direct.edited_row(window, edited);
    EXPECT_NEAR(window.after(edited).kl, direct.kl(full), 1e-3);  // f32 logits of 1000
    EXPECT_NEAR(window.after(edited).drift, direct.drift(full), 1e-9);
    EXPECT_EQ(window.after(edited).top1, direct.top1(full));
  }
}

TEST(StepWindow, LabelsSplitDistortedStepsByCoverage) {
  const schemas::TracePart trace = make_trace({});
  StepWindow window;
  window.assign(trace, 0, 3, 0.9, 8);
  const double d = window.drift(), c = window.coverage();
  ASSERT_GT(d, 0.0);
  EXPECT_TRUE(window.risky(d / 2, c));
  EXPECT_FALSE(window.uncovered(d / 2, c));
  EXPECT_FALSE(window.risky(d / 2, std::nextafter(c, 1.0)));
  EXPECT_TRUE(window.uncovered(d / 2, std::nextafter(c, 1.0)));
  EXPECT_FALSE(window.risky(d, 0.0));  // strictly above epsilon
}

TEST(StepWindow, OracleHasTheReferencesShapeAndMass) {
  StepWindow window;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    for (const int k : window_sizes(kind)) {
      for (std::int64_t step = 0; step < trace.steps(); ++step) {
        SCOPED_TRACE(::testing::Message()
                     << "seed " << kind.seed << " k " << k << " step " << step);
        window.assign(trace, 0, step, 0.9, k);
        std::vector<float> edited(window.k());
        window.oracle(edited);
        const Direct direct(trace, 0, step, 0.9, k);
        const auto q = Direct::softmax(direct.edited_row(window, edited));
        double error = 0.0, kl = 0.0;
        for (int i = 0; i < window.k(); ++i) {
          error += std::abs(q[window.ids()[i]] - direct.p[window.ids()[i]]);
        }
        EXPECT_LT(error, 4e-6);  // f32 logits of size 30
        // What is left is the divergence of the two tails, each scaled to 1 - m_fp.
        const auto before = Direct::softmax(direct.quantized);
        double reference_tail = 0.0, quantized_tail = 0.0;
        for (std::size_t i = 0; i < q.size(); ++i) {
          if (direct.window.count(static_cast<int>(i))) continue;
          reference_tail += direct.p[i], quantized_tail += before[i];
        }
        for (std::size_t i = 0; i < q.size(); ++i) {
          if (direct.window.count(static_cast<int>(i)) || direct.p[i] == 0.0) continue;
          kl += direct.p[i] * std::log(direct.p[i] / reference_tail * quantized_tail / before[i]);
        }
        EXPECT_NEAR(window.after(edited).kl, kl, 4e-6 + 1e-6 * window.before().kl);
      }
    }
  }
}

TEST(StepWindow, RefusesWindowsThatTheTraceCannotServe) {
  schemas::TracePart trace = make_trace({});
  StepWindow window;
  EXPECT_THROW(window.assign(trace, 0, 0, 0.9, 33), base::FailedError);  // M = 33 of 97
  EXPECT_THROW(window.assign(trace, 0, 0, 0.9, 0), base::FailedError);
  EXPECT_THROW(coverage(trace, 0, 0.9, 34), base::FailedError);
  try {
    window.assign(trace, 0, 0, 0.97, 8);  // candidates are kept up to .95
    // The last candidate may reach beyond .97: then the set is complete.
    double mass = 0.0;
    std::vector<double> scratch;
    for (const double p : candidate_probabilities(trace, 0, 0.97, scratch)) mass += p;
    EXPECT_GE(mass, 0.97);
  } catch (const base::FailedError& error) {
    EXPECT_NE(std::string(error.what()).find("alpha_max"), std::string::npos);
  }
}

TEST(Coverage, IsThatOfEveryStepAndGrowsWithK) {
  StepWindow window;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    std::vector<double> last(trace.steps(), 0.0);
    for (const int k : window_sizes(kind)) {
      const std::vector<double> c = coverage(trace, 0, 0.9, k);
      for (std::int64_t step = 0; step < trace.steps(); ++step) {
        window.assign(trace, 0, step, 0.9, k);
        EXPECT_EQ(c[step], window.coverage());
        EXPECT_GE(c[step], last[step]);
      }
      last = c;
    }
  }
}

TEST(RecomputeColumns, GivesTheSameTwiceAndNeedsLogits) {
  schemas::TracePart trace = make_trace({});
  const schemas::TracePart first = trace;
  recompute_columns(trace, 0.95);
  EXPECT_EQ(trace.columns[0].top_ids, first.columns[0].top_ids);
  EXPECT_EQ(trace.columns[1].kl, first.columns[1].kl);
  EXPECT_EQ(trace.columns[1].candidate_ranks, first.columns[1].candidate_ranks);
  trace.columns[1].logits.clear();
  EXPECT_THROW(recompute_columns(trace, 0.95), base::FailedError);
}

TEST(AdaptiveWindow, IsTheSmallestThatHoldsTheMass) {
  std::vector<double> held, covered;
  StepWindow adaptive, fixed;
  for (const RandomTrace& kind : kinds()) {
    const schemas::TracePart trace = make_trace(kind);
    const int most = window_sizes(kind).back();
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
      coverage_by_size(trace, 0, step, 0.9, most, held, covered);
      ASSERT_FALSE(held.empty());
      for (const double mass : {0.0, 0.3, 0.7, 0.95, 1.0}) {
        adaptive.assign(trace, 0, step, 0.9, most, mass);
        const auto k = static_cast<std::size_t>(adaptive.k());
        EXPECT_TRUE(k == held.size() || (mass < 1.0 && held[k - 1] >= mass));
        EXPECT_TRUE(k == 1 || mass == 1.0 || held[k - 2] < mass);  // 1: never ends
        if (mass == 1.0) {
          EXPECT_EQ(k, held.size());
        }
        // From there on it is the window of that size.
        fixed.assign(trace, 0, step, 0.9, adaptive.k());
        EXPECT_EQ(adaptive.coverage(), fixed.coverage());
        EXPECT_EQ(adaptive.drift(), fixed.drift());
        EXPECT_EQ(adaptive.has_tail(), fixed.has_tail());
        EXPECT_NEAR(covered[k - 1], fixed.coverage(), 1e-12);
        EXPECT_NEAR(held[k - 1], fixed.quantized_mass(), 3e-7);  // of the served lse and the exact
      }
    }
  }
}

}  // namespace
}  // namespace dgap::statistics
