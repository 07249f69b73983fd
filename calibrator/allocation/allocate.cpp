#include "calibrator/allocation/allocate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "calibrator/allocation/estimators.hpp"
#include "calibrator/allocation/plots.hpp"
#include "calibrator/allocation/sensitivity.hpp"
#include "schemas/results/results.hpp"

namespace dgap::calibrator {
namespace {

namespace fs = std::filesystem;
using schemas::AllocationPoint;

constexpr int kCurvePoints = 12;

/// The part of the configuration that the allocation depends on: of the precisions, its base.
schemas::Config own_config(schemas::Config config) {
  std::erase_if(config.precisions,
                [&](const schemas::Scheme& s) { return s.name != config.allocation.base; });
  return config;
}

/// Of the settings that the sensitivity depends on, and the model.
std::string sensitivity_key(schemas::Config config, const engine::Decoder& decoder) {
  const schemas::AllocationConfig defaults;
  schemas::AllocationConfig& a = config.allocation;
  a.budget = a.floor = 0;
  a.choices = {a.choices.back()};
  a.name = defaults.name, a.estimator = defaults.estimator;
  a.validation_prompts = defaults.validation_prompts;
  a.book_weight = defaults.book_weight, a.paths = defaults.paths, a.random = defaults.random;
  return base::sha256_hex(schemas::to_stage_yaml(config, "allocate") + "\n" +
                          decoder.model().model_sha256 + decoder.compute() + decoder.cpu_isa());
}

/// One allocation in the making: model, cases, and the space of bits.
class Allocator {
 public:
  Allocator(const schemas::Config& config, base::Progress& progress)
      : config_(config),
        settings_(config.allocation),
        progress_(progress),
        directory_(config.run_directory()),
        tokenizer_(engine::open_tokenizer(config.model.path, config.model.format)),
        decoder_(engine::open_decoder(config.model.path, config.model.format, config.model.device,
                                      {.compute = config.model.compute})),
        space_(config.precisions.front(), decoder_->model().layers, decoder_->model().kv_heads) {}

  void run() {
    for (const std::string& note : decoder_->model().notes) progress_.warn(note);
    check_context();
    const std::map<std::string, std::vector<Upgrade>> orders = estimate();
    choose(orders);
    schemas::write_allocation(directory_ / "allocation.json", space_.allocation(bits_));
    schemas::write_allocation_results(directory_ / "allocation_results.json", results_);
    base::write_file_atomically(directory_ / "allocation_results.svg", plot(results_));
    progress_.info("allocation: " + std::to_string(results_.allocated.parts) + " tensors of " +
                   std::to_string(space_.size()) + ", " + base::number(results_.allocated.bits) +
                   " bits per element, by " + results_.estimator);
  }

 private:
  void check_context() const {
    const std::int64_t needed = std::int64_t{settings_.context} + settings_.steps;
    if (needed <= decoder_->model().context_length) return;
    throw base::UsageError("allocation.context, allocation.steps: " + std::to_string(needed) +
                           " tokens are more than the model's " +
                           std::to_string(decoder_->model().context_length));
  }

  Bank bank(const std::string& split, int prompts) const {
    return Bank(*decoder_, make_cases(config_, split, prompts, *tokenizer_, progress_));
  }

  /// Bits per element of every choice, from caches that have it everywhere.
  void set_widths(const Bank& bank) {
    std::vector<int> all = {kBaseBits, kExactBits};
    all.insert(all.end(), settings_.choices.begin(), settings_.choices.end());
    for (const int bits : all) {
      const auto [key, value] = bank.bits_per_element(space_.scheme(space_.all(bits)));
      space_.set_width(false, bits, key);
      space_.set_width(true, bits, value);
    }
    for (const int bits : settings_.choices) {
      if (space_.added({0, 0, false}, bits) > 0 && space_.added({0, 0, true}, bits) > 0) continue;
      throw base::UsageError("allocation.choices: " + std::to_string(bits) +
                             " bits are not more than those of " + settings_.base);
    }
  }

  bool wants(const char* estimator) const {
    return settings_.estimator == "auto" || settings_.estimator == estimator;
  }

  /// Orders of upgrades, by estimator.
  std::map<std::string, std::vector<Upgrade>> estimate() {
    const Bank cases = bank("train", settings_.prompts);
    set_widths(cases);
    const schemas::Sensitivity sensitivity = sensitivity_of(cases);
    std::map<std::string, std::vector<Upgrade>> orders;
    orders["spared"] =
        ranked(space_, spared_upgrades(cases, space_, settings_, sensitivity, progress_));
    if (wants("paths") || wants("greedy")) {
      orders["paths"] =
          ranked(space_, path_upgrades(cases, space_, settings_, config_.run.seed, progress_));
    }
    if (wants("greedy") && settings_.budget > 0) {
      orders["greedy"] =
          greedy_order(cases, space_, settings_, orders.at("paths"), settings_.budget, progress_);
    }
    std::erase_if(orders, [&](const auto& order) { return !wants(order.first.c_str()); });
    return orders;
  }

  /// Measured, or as an interrupted run left it.
  schemas::Sensitivity sensitivity_of(const Bank& cases) {
    const fs::path file = directory_ / "sensitivity.json";
    const std::string key = sensitivity_key(config_, *decoder_);
    try {
      schemas::Sensitivity found = schemas::read_sensitivity(file);
      if (found.key == key) return found;
    } catch (const base::IoError&) {  // there is none
    }
    schemas::Sensitivity measured =
        measure_sensitivity(cases, space_, settings_.tensors, settings_.choices.back(), progress_);
    measured.key = key;
    schemas::write_sensitivity(file, measured);
    base::write_file_atomically(directory_ / "sensitivity.svg", plot(measured));
    return measured;
  }

  AllocationPoint point(const Bits& bits, const AllocationLoss& loss) const {
    const auto parts =
        std::count_if(bits.begin(), bits.end(), [](int b) { return b != kBaseBits; });
    return {space_.bits_per_element(bits), static_cast<int>(parts), loss};
  }

  std::vector<AllocationPoint> measure(const Bank& cases, const std::vector<Bits>& all) {
    std::vector<schemas::Scheme> schemes;
    for (const Bits& bits : all) schemes.push_back(space_.scheme(bits));
    progress_.begin("validate", static_cast<std::int64_t>(all.size() * cases.size()), "decodes");
    const auto losses = cases.run_all(schemes, [&](std::int64_t n) { progress_.advance(n); });
    progress_.end();
    std::vector<AllocationPoint> points;
    for (std::size_t i = 0; i < all.size(); ++i) points.push_back(point(all[i], losses[i]));
    return points;
  }

  /// The best order on the validation cases, its curve, and random ones beside it.
  void choose(const std::map<std::string, std::vector<Upgrade>>& orders) {
    const Bank cases = bank("validation", settings_.validation_prompts);
    double budget = settings_.budget;
    if (budget == 0) budget = budget_for_floor(cases, orders);
    std::vector<Bits> all = {space_.all(kBaseBits)};
    std::vector<std::string> names;
    for (const auto& [name, order] : orders) {
      names.push_back(name);
      all.push_back(fill(space_, order, budget));
    }
    for (int i = 0; i < settings_.random; ++i) {
      base::Random random(config_.run.seed, "allocate/random/" + std::to_string(i));
      all.push_back(fill(space_, random_order(space_, settings_, random), budget));
    }
    const std::vector<AllocationPoint> points = measure(cases, all);
    std::size_t best = 0;  // of those that reach the floor
    for (std::size_t i = 1; i <= names.size(); ++i) {
      results_.estimators[names[i - 1]] = points[i];
      if (points[i].loss.token < settings_.floor) continue;
      if (best == 0 || total(points[i].loss, settings_.book_weight) <
                           total(points[best].loss, settings_.book_weight))
        best = i;
    }
    bits_ = all[best];
    results_.base = settings_.base, results_.name = settings_.name;
    results_.estimator = names[best - 1];
    results_.budget = settings_.budget, results_.floor = settings_.floor;
    results_.exact = cases.reference();
    results_.quantized = points.front(), results_.allocated = points[best];
    results_.random.assign(points.begin() + 1 + std::ssize(names), points.end());
    results_.curve = curve(cases, orders.at(results_.estimator));
  }

  /// Bits that fill(order, ...) can use at most.
  double most_bits(const std::vector<Upgrade>& order) const {
    return space_.bits_per_element(fill(space_, order, kExactBits));
  }

  std::vector<AllocationPoint> curve(const Bank& cases, const std::vector<Upgrade>& order) {
    const double low = space_.bits_per_element(space_.all(kBaseBits)), high = most_bits(order);
    std::vector<Bits> all;
    for (int i = 0; i < kCurvePoints; ++i) {  // denser where the first bits go
      const double share = static_cast<double>(i) / (kCurvePoints - 1);
      Bits bits = fill(space_, order, low + (high - low) * share * share);
      if (all.empty() || bits != all.back()) all.push_back(std::move(bits));
    }
    return measure(cases, all);
  }

  /// The smallest budget, by bisection, at which an order reaches allocation.floor.
  double budget_for_floor(const Bank& cases,
                          const std::map<std::string, std::vector<Upgrade>>& orders) {
    constexpr int kHalvings = 7;
    std::optional<double> least;
    for (const auto& [name, order] : orders) {
      double low = space_.bits_per_element(space_.all(kBaseBits)), high = most_bits(order);
      const auto reaches = [&](double budget) {
        const Bits bits = fill(space_, order, budget);
        return measure(cases, {bits}).front().loss.token >= settings_.floor;
      };
      if (!reaches(high)) continue;
      for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        (reaches(middle) ? high : low) = middle;
      }
      if (!least || high < *least) least = high;
    }
    if (!least) {
      throw base::FailedError(
          "allocation.floor: no allocation of allocation.choices reaches a token "
          "accuracy of " +
          base::number(settings_.floor) +
          " on the validation prompts; lower it or offer more bits");
    }
    return *least;
  }

  const schemas::Config& config_;
  const schemas::AllocationConfig& settings_;
  base::Progress& progress_;
  fs::path directory_;
  std::unique_ptr<engine::Tokenizer> tokenizer_;
  std::unique_ptr<engine::Decoder> decoder_;
  BitSpace space_;
  Bits bits_;
  schemas::AllocationResults results_;
};

}  // namespace

void allocate(const schemas::Config& config, base::Progress& progress) {
  if (!config.allocation.wanted())
    return progress.info("allocate: the configuration wants none (allocation.base)");
  const schemas::Config own = own_config(config);
  const schemas::Stage stage(own, "allocate", {});
  if (stage.done()) return progress.info("allocate: up to date");
  const fs::path directory = config.run_directory();
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw base::IoError(directory.string() + ": cannot be made: " + error.message());
  Allocator(own, progress).run();
  stage.finish({directory / "sensitivity.json", directory / "sensitivity.svg",
                directory / "allocation.json", directory / "allocation_results.json",
                directory / "allocation_results.svg"});
}

}  // namespace dgap::calibrator
