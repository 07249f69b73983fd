#include "calibrator/threshold_curve.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace dgap::calibrator {
namespace {

constexpr std::size_t kMaxPoints = 513;

/// Means over all steps when those with risk > tau are corrected.
struct Point {
  double tau = 0, rate = 0, drift = 0, kl = 0, top1 = 0, nll = 0, worse = 0;
};

/// Sums over all steps while more and more of them are corrected, highest risk first.
class Sums {
 public:
  explicit Sums(std::span<const StepOutcome> steps) : steps_(static_cast<double>(steps.size())) {
    for (const StepOutcome& step : steps) add(step.before, {});
  }
  void correct(const StepOutcome& step) {
    add(step.after, step.before);
    corrected_ += 1.0;
    worse_ += step.after.kl > step.before.kl ? 1.0 : 0.0;
  }
  Point at(double tau) const {
    return {tau,           corrected_ / steps_, drift_ / steps_, kl_ / steps_, top1_ / steps_,
            nll_ / steps_, worse_ / steps_};
  }

 private:
  /// The difference is formed first: what a correction leaves as it is changes no sum.
  void add(const statistics::StepWindow::Metrics& now, const statistics::StepWindow::Metrics& was) {
    drift_ += now.drift - was.drift;
    kl_ += now.kl - was.kl;
    nll_ += now.nll - was.nll;
    top1_ += (now.top1 ? 1.0 : 0.0) - (was.top1 ? 1.0 : 0.0);
  }

  double steps_, corrected_ = 0, drift_ = 0, kl_ = 0, nll_ = 0, top1_ = 0, worse_ = 0;
};

/// Points at 1, every distinct score, every one of `extra`, and 0: tau descending, without repeats.
std::vector<Point> points(std::span<const StepOutcome> steps, std::vector<double> taus) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return steps[a].risk > steps[b].risk; });
  taus.push_back(0.0);
  taus.push_back(1.0);
  for (const StepOutcome& step : steps) taus.push_back(step.risk);
  std::sort(taus.begin(), taus.end(), std::greater<>());
  taus.erase(std::unique(taus.begin(), taus.end()), taus.end());

  Sums sums(steps);
  std::vector<Point> result;
  std::size_t corrected = 0;
  for (const double tau : taus) {
    while (corrected < order.size() && steps[order[corrected]].risk > tau) {
      sums.correct(steps[order[corrected++]]);
    }
    result.push_back(sums.at(tau));
  }
  return result;
}

/// Index of the policy's point.
std::size_t choose(const std::vector<Point>& points, const schemas::ThresholdConfig& config) {
  if (config.policy == "fixed") {
    const auto same = [&](const Point& point) { return point.tau == config.value; };
    return std::find_if(points.begin(), points.end(), same) - points.begin();
  }
  const auto gain = [&](const Point& point) {
    return points.front().kl - point.kl - config.cost * point.rate;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (gain(points[i]) > gain(points[best])) best = i;
  }
  return best;
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

void append(schemas::ThresholdCurve& curve, const Point& point) {
  curve.tau.push_back(point.tau);
  curve.rate.push_back(point.rate);
  curve.drift.push_back(point.drift);
  curve.kl.push_back(point.kl);
  curve.top1_agreement.push_back(point.top1);
  curve.perplexity.push_back(std::exp(point.nll));
  curve.kl_worse_share.push_back(point.worse);
}

}  // namespace

schemas::ThresholdResult choose_threshold(std::span<const StepOutcome> steps,
                                          const schemas::ThresholdConfig& config) {
  std::vector<double> extra;
  if (config.policy == "fixed") extra.push_back(config.value);
  const std::vector<Point> all = points(steps, std::move(extra));
  const std::size_t chosen = choose(all, config);
  const Point& nothing = all.front();

  schemas::ThresholdResult result;
  result.policy = config.policy;
  result.tau = all[chosen].tau;
  result.drift_before = nothing.drift;
  result.kl_before = nothing.kl;
  const bool gains = config.policy == "fixed" ? all[chosen].kl <= nothing.kl : chosen != 0;
  result.mode = gains ? "threshold" : "off";
  std::vector<std::size_t> kept = thinned(all.size(), chosen);
  std::reverse(kept.begin(), kept.end());  // tau ascending
  for (const std::size_t i : kept) append(result.curve, all[i]);
  return result;
}

}  // namespace dgap::calibrator
