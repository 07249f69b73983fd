#include "calibrator/allocation/estimators.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>

#include "base/stop.hpp"
#include "calibrator/allocation/sensitivity.hpp"

namespace dgap::calibrator {
namespace {

constexpr double kRounding = 1e-9;  // bits per element

/// Parts of the tensors whose bits are chosen.
std::vector<std::size_t> parts_of(const BitSpace& space, const schemas::AllocationConfig& config) {
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const char* tensor = space.part(i).value ? "value" : "key";
    if (std::count(config.tensors.begin(), config.tensors.end(), tensor) > 0) parts.push_back(i);
  }
  return parts;
}

/// One walk: the gains of a case as the parts of `order` get `bits` one after another.
void gains_along(const Bank& bank, std::size_t one, const BitSpace& space,
                 const std::vector<std::size_t>& order, int bits, double book_weight,
                 std::vector<double>& of_part) {
  Bits now = space.all(kBaseBits);
  double before = total(bank.run(one, space.scheme(now)), book_weight);
  for (const std::size_t part : order) {
    base::throw_if_stop_requested();
    now[part] = bits;
    const double after = total(bank.run(one, space.scheme(now)), book_weight);
    of_part[part] = before - after;
    before = after;
  }
}

}  // namespace

double worth(const BitSpace& space, const Upgrade& upgrade) {
  return upgrade.value / space.added(space.part(upgrade.part), upgrade.bits);
}

double extra(const BitSpace& space, const Upgrade& upgrade, const Bits& now) {
  const Part part = space.part(upgrade.part);
  return space.added(part, upgrade.bits) - space.added(part, now[upgrade.part]);
}

bool fits(const BitSpace& space, const Upgrade& upgrade, const Bits& now, double left) {
  return upgrade.bits > now[upgrade.part] && extra(space, upgrade, now) <= left + kRounding;
}

std::vector<Upgrade> ranked(const BitSpace& space, std::vector<Upgrade> upgrades) {
  std::stable_sort(upgrades.begin(), upgrades.end(), [&](const Upgrade& a, const Upgrade& b) {
    const double left = worth(space, a), right = worth(space, b);
    if (left != right) return left > right;
    return a.part != b.part ? a.part < b.part : a.bits < b.bits;
  });
  return upgrades;
}

Bits fill(const BitSpace& space, const std::vector<Upgrade>& order, double budget) {
  Bits bits = space.all(kBaseBits);
  double left = budget - space.bits_per_element(bits);
  for (const Upgrade& upgrade : order) {
    if (!fits(space, upgrade, bits, left)) continue;
    left -= extra(space, upgrade, bits);
    bits[upgrade.part] = upgrade.bits;
  }
  return bits;
}

std::vector<Upgrade> random_order(const BitSpace& space, const schemas::AllocationConfig& config,
                                  base::Random& random) {
  std::vector<Upgrade> order;
  for (const std::size_t part : parts_of(space, config))
    order.push_back({part, config.choices.back(), 0});
  random.shuffle(std::span(order));
  return order;
}

std::vector<Upgrade> spared_upgrades(const Bank& bank, const BitSpace& space,
                                     const schemas::AllocationConfig& config,
                                     const schemas::Sensitivity& sensitivity,
                                     base::Progress& progress) {
  std::vector<Upgrade> upgrades, to_measure;
  std::vector<schemas::Scheme> schemes;
  for (const std::size_t i : parts_of(space, config)) {
    const Part part = space.part(i);
    for (const int bits : config.choices) {
      if (bits != sensitivity.spared_bits) {
        Bits one = space.all(kBaseBits);
        one[i] = bits;
        schemes.push_back(space.scheme(one));
        to_measure.push_back({i, bits, 0});
        continue;
      }
      const auto& t = sensitivity.tensors.at(part.value ? "value" : "key");
      const auto layer = static_cast<std::size_t>(part.layer);
      const auto head = static_cast<std::size_t>(part.head);
      upgrades.push_back(
          {i, bits, t.gain_nll[layer][head] + config.book_weight * t.gain_kl[layer][head]});
    }
  }
  if (schemes.empty()) return upgrades;
  progress.begin("spared", static_cast<std::int64_t>(schemes.size() * bank.size()), "decodes");
  const auto losses = bank.run_all(schemes, [&](std::int64_t n) { progress.advance(n); });
  progress.end();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    to_measure[i].value =
        total(sensitivity.quantized, config.book_weight) - total(losses[i], config.book_weight);
    upgrades.push_back(to_measure[i]);
  }
  return upgrades;
}

std::vector<Upgrade> path_upgrades(const Bank& bank, const BitSpace& space,
                                   const schemas::AllocationConfig& config, std::uint64_t seed,
                                   base::Progress& progress) {
  const std::vector<std::size_t> parts = parts_of(space, config);
  double prompts = 0, sites = 0;
  for (std::size_t i = 0; i < bank.size(); ++i) (bank.is_prompt(i) ? prompts : sites) += 1;
  const auto paths = static_cast<std::size_t>(config.paths);
  progress.begin("paths", static_cast<std::int64_t>(config.choices.size() * paths * bank.size()),
                 "orders");
  std::vector<Upgrade> upgrades;
  for (const int bits : config.choices) {
    std::vector<double> mean(space.size(), 0.0);
    for (std::size_t path = 0; path < paths; ++path) {
      std::vector<std::vector<double>> gains(bank.size(), std::vector<double>(space.size(), 0.0));
      tbb::parallel_for(std::size_t{0}, bank.size(), [&](std::size_t i) {
        base::Random random(seed,
                            "allocate/path/" + std::to_string(path) + "/" + std::to_string(i / 2));
        std::vector<std::size_t> order = parts;
        random.shuffle(std::span(order));
        if (i % 2 == 1) std::reverse(order.begin(), order.end());
        gains_along(bank, i, space, order, bits, config.book_weight, gains[i]);
      });
      for (std::size_t i = 0; i < bank.size(); ++i) {
        const double weight = 1.0 / ((bank.is_prompt(i) ? prompts : sites) * config.paths);
        for (std::size_t p = 0; p < mean.size(); ++p) mean[p] += weight * gains[i][p];
      }
      progress.advance(static_cast<std::int64_t>(bank.size()));
    }
    for (const std::size_t part : parts) upgrades.push_back({part, bits, mean[part]});
  }
  progress.end();
  return upgrades;
}

}  // namespace dgap::calibrator
