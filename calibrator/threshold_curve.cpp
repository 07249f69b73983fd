#include "calibrator/threshold_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "statistics/risk_control.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::size_t kMaxPoints = 513;

/// Means over all steps when those with risk > tau are corrected.
struct Point {
  double tau = 0, rate = 0, drift = 0, kl = 0, top1 = 0, nll = 0, worse = 0, worse_by_book = 0;
};

/// What each step weighs in a mean over books of means within them; equal without books.
std::vector<double> book_weights(std::size_t steps, const statistics::Clusters& books) {
  if (books.approximate) return std::vector<double>(steps, 1.0 / static_cast<double>(steps));
  std::vector<double> sizes(books.count), weights(steps);
  for (const std::int32_t book : books.of_step) sizes[book] += 1.0;
  for (std::size_t i = 0; i < steps; ++i) {
    weights[i] = 1.0 / (sizes[books.of_step[i]] * static_cast<double>(books.count));
  }
  return weights;
}

/// Sums over all steps while more and more of them are corrected, highest risk first.
class Sums {
 public:
  explicit Sums(std::span<const StepOutcome> steps) : steps_(static_cast<double>(steps.size())) {
    for (const StepOutcome& step : steps) add(step.before, {});
  }
  void correct(const StepOutcome& step, double book_weight) {
    add(step.after, step.before);
    corrected_ += 1.0;
    if (!(step.after.kl > step.before.kl)) return;
    worse_ += 1.0;
    worse_by_book_ += book_weight;
  }
  Point at(double tau) const {
    return {tau,
            corrected_ / steps_,
            drift_ / steps_,
            kl_ / steps_,
            top1_ / steps_,
            nll_ / steps_,
            worse_ / steps_,
            std::min(worse_by_book_, 1.0)};
  }

 private:
  /// The difference is formed first: what a correction leaves as it is changes no sum.
  void add(const statistics::StepWindow::Metrics& now, const statistics::StepWindow::Metrics& was) {
    drift_ += now.drift - was.drift;
    kl_ += now.kl - was.kl;
    nll_ += now.nll - was.nll;
    top1_ += (now.top1 ? 1.0 : 0.0) - (was.top1 ? 1.0 : 0.0);
  }

  double steps_, corrected_ = 0, drift_ = 0, kl_ = 0, nll_ = 0, top1_ = 0, worse_ = 0,
                 worse_by_book_ = 0;
};

/// Points at 1, every distinct score, every one of `extra`, and 0: tau descending, without repeats.
std::vector<Point> points(std::span<const StepOutcome> steps, const statistics::Clusters& books,
                          std::vector<double> taus) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].escalated) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return steps[a].risk > steps[b].risk; });
  taus.push_back(0.0);
  taus.push_back(1.0);
  for (const std::size_t step : order) taus.push_back(steps[step].risk);
  std::sort(taus.begin(), taus.end(), std::greater<>());
  taus.erase(std::unique(taus.begin(), taus.end()), taus.end());

  const std::vector<double> weights = book_weights(steps.size(), books);
  Sums sums(steps);
  std::vector<Point> result;
  std::size_t corrected = 0;
  for (const double tau : taus) {
    while (corrected < order.size() && steps[order[corrected]].risk > tau) {
      const std::size_t step = order[corrected++];
      sums.correct(steps[step], weights[step]);
    }
    result.push_back(sums.at(tau));
  }
  return result;
}

/// How many points from tau = 1 down keep to the limit on the share made worse: at least the first,
/// which corrects nothing.
std::size_t admissible(const std::vector<Point>& points, const schemas::WorseBound& worse) {
  if (!worse.limit) return points.size();
  const auto exceeds = [&](const Point& point) {
    return statistics::hoeffding_bentkus(point.worse_by_book, worse.books, *worse.limit) >
           1.0 - worse.confidence;
  };
  const auto keeps = [&](const Point& point) { return !exceeds(point); };
  const auto end = std::partition_point(points.begin() + 1, points.end(), keeps);
  return static_cast<std::size_t>(end - points.begin());
}

/// The point of least `cost`, the first of equals.
template <class Cost>
std::size_t least(std::span<const Point> points, const Cost& cost) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (cost(points[i]) < cost(points[best])) best = i;
  }
  return best;
}

/// Index of the policy's point, tau descending.
std::size_t choose(std::span<const Point> points, const schemas::ThresholdConfig& config) {
  const auto kl = [](const Point& point) { return point.kl; };
  if (config.policy == "fixed") {
    const auto reached = [&](const Point& point) { return point.tau <= config.value; };
    const auto found = std::find_if(points.begin(), points.end(), reached);
    return std::min<std::size_t>(found - points.begin(), points.size() - 1);
  }
  if (config.policy == "budget") {
    const auto within = [&](const Point& point) { return point.rate <= config.budget; };
    const auto end = std::find_if_not(points.begin(), points.end(), within);
    return least(points.first(end - points.begin()), kl);
  }
  if (config.policy == "target") {
    const auto reaches = [&](const Point& point) { return point.drift <= config.target; };
    const auto found = std::find_if(points.begin(), points.end(), reaches);
    if (found != points.end()) return static_cast<std::size_t>(found - points.begin());
    return least(points, [](const Point& point) { return point.drift; });
  }
  const double before = points.front().kl;
  return least(points,
               [&](const Point& point) { return -(before - point.kl - config.cost * point.rate); });
}

/// At most kMaxPoints of `count` indices, evenly spread, with both ends and `chosen`.
std::vector<std::size_t> thinned(std::size_t count, std::size_t chosen) {
  const std::size_t kept = std::min(count, kMaxPoints);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < kept; ++i) {
    indices.push_back(kept < 2 ? 0 : i * (count - 1) / (kept - 1));
  }
  const auto at = std::lower_bound(indices.begin(), indices.end(), chosen);
  if (*at != chosen) *(at == indices.end() - 1 ? at - 1 : at) = chosen;  // the ends stay
  return indices;
}

schemas::WorseBound worse_bound(const schemas::ThresholdConfig& config,
                                const statistics::Clusters& books) {
  schemas::WorseBound worse;
  worse.books = books.approximate ? 0 : books.count;
  worse.confidence = config.worse_confidence;
  if (config.worse_share < 1.0 && !books.approximate) worse.limit = config.worse_share;
  return worse;
}

void append(schemas::ThresholdCurve& curve, const Point& point, const schemas::WorseBound& worse) {
  curve.tau.push_back(point.tau);
  curve.rate.push_back(point.rate);
  curve.drift.push_back(point.drift);
  curve.kl.push_back(point.kl);
  curve.top1_agreement.push_back(point.top1);
  curve.perplexity.push_back(std::exp(point.nll));
  curve.kl_worse_share.push_back(point.worse);
  curve.worse_by_book.push_back(point.worse_by_book);
  curve.worse_bound.push_back(
      worse.books == 0
          ? std::numeric_limits<double>::quiet_NaN()
          : statistics::upper_bound(point.worse_by_book, worse.books, 1.0 - worse.confidence));
}

}  // namespace

schemas::Escalation choose_escalation(std::span<const StepOutcome> steps, double precision) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return steps[a].escalation > steps[b].escalation; });
  const auto right = [](const StepOutcome& step) { return step.uncovered ? 1.0 : 0.0; };
  double all = 0.0, found = 0.0, escalated = 0.0;
  for (const StepOutcome& step : steps) all += right(step);
  schemas::Escalation best;
  best.precision = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < order.size(); ++i) {
    found += right(steps[order[i]]);
    escalated += 1.0;
    const double next = i + 1 < order.size() ? steps[order[i + 1]].escalation : 0.0;
    if (!(steps[order[i]].escalation > next) || found / escalated < precision) continue;
    best = {next, escalated / static_cast<double>(steps.size()), found / escalated, found / all};
  }
  if (all == 0.0) best.recall = std::numeric_limits<double>::quiet_NaN();
  return best;
}

schemas::ThresholdResult choose_threshold(std::span<const StepOutcome> steps,
                                          const schemas::ThresholdConfig& config,
                                          const statistics::Clusters& books) {
  std::vector<double> extra;
  if (config.policy == "fixed") extra.push_back(config.value);
  const std::vector<Point> all = points(steps, books, std::move(extra));
  schemas::ThresholdResult result;
  result.worse = worse_bound(config, books);
  const std::size_t allowed = admissible(all, result.worse);
  if (result.worse.limit) result.worse.tau = all[allowed - 1].tau;
  const std::size_t chosen = choose(std::span(all).first(allowed), config);
  const Point& nothing = all.front();

  result.policy = config.policy;
  result.tau = all[chosen].tau;
  result.drift_before = nothing.drift;
  result.kl_before = nothing.kl;
  const bool fixed = config.policy == "fixed";
  const bool harmless = all[chosen].kl <= nothing.kl;
  result.mode = harmless && (fixed || chosen != 0) ? "threshold" : "off";
  std::vector<std::size_t> kept = thinned(all.size(), chosen);
  std::reverse(kept.begin(), kept.end());  // tau ascending
  for (const std::size_t i : kept) append(result.curve, all[i], result.worse);
  return result;
}

}  // namespace dgap::calibrator
