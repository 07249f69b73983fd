#include "evaluator/online.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/rate_controller.hpp"

namespace dgap::evaluator {
namespace {

using nlohmann::json;

/// Sums over steps of what one threshold makes of them.
struct Sums {
  double corrected = 0, kl = 0, drift = 0, top1 = 0;

  void add(const Outcome& o, bool corrects) {
    const Metrics& metrics = corrects ? o.always : o.quantized;
    corrected += corrects ? 1.0 : 0.0;
    kl += metrics.kl, drift += metrics.drift, top1 += metrics.top1 ? 1.0 : 0.0;
  }
  json means(double steps) const {
    return {{"correction_rate", corrected / steps},
            {"kl", kl / steps},
            {"drift", drift / steps},
            {"top1_agreement", top1 / steps}};
  }
};

/// Steps of one book, or of all.
struct Comparison {
  double steps = 0, kl_quantized = 0;
  double units = 0, fixed_error = 0, online_error = 0;  // |rate of a unit - budget|, summed
  Sums fixed, online;

  json figures() const {
    json object = {{"steps", steps},
                   {"kl_quantized", kl_quantized / steps},
                   {"fixed", fixed.means(steps)},
                   {"online", online.means(steps)}};
    object["fixed"]["rate_error"] = fixed_error / units;
    object["online"]["rate_error"] = online_error / units;
    return object;
  }
};

void add_unit(std::span<const Outcome> unit, double tau, const schemas::OnlineRate& settings,
              Comparison& sums) {
  runtime::RateController controller(tau, settings.rate, settings.step, settings.low,
                                     settings.high);
  double fixed = 0, online = 0;
  for (const Outcome& o : unit) {
    const bool by_fixed = static_cast<double>(o.risk) > tau && !o.escalated;
    const bool by_online = static_cast<double>(o.risk) > controller.tau() && !o.escalated;
    controller.observe(by_online);
    sums.kl_quantized += o.quantized.kl;
    sums.fixed.add(o, by_fixed);
    sums.online.add(o, by_online);
    fixed += by_fixed ? 1.0 : 0.0;
    online += by_online ? 1.0 : 0.0;
  }
  const auto steps = static_cast<double>(unit.size());
  sums.steps += steps;
  sums.units += 1.0;
  sums.fixed_error += std::fabs(fixed / steps - settings.rate);
  sums.online_error += std::fabs(online / steps - settings.rate);
}

}  // namespace

json online_figures(const schemas::TracePart& trace, std::span<const Outcome> outcomes, double tau,
                    const schemas::OnlineRate& online) {
  Comparison all;
  std::map<std::string, Comparison> books;
  for (const schemas::TraceUnit& unit : trace.units) {
    if (unit.steps == 0) continue;
    const auto steps = outcomes.subspan(static_cast<std::size_t>(unit.first_step),
                                        static_cast<std::size_t>(unit.steps));
    add_unit(steps, tau, online, all);
    add_unit(steps, tau, online, books[unit.book]);
  }
  json object = all.figures();
  object["budget"] = online.rate;
  for (const auto& [book, comparison] : books) object["by_book"][book] = comparison.figures();
  return object;
}

}  // namespace dgap::evaluator
