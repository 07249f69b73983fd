#include "schemas/config/checks.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace dgap::schemas {
namespace {

class Checker {
 public:
  explicit Checker(const YamlNode& root) : root_(root) {}
  void require(bool holds, std::string_view path, const std::string& message) const {
    if (!holds) fail_at(locate(root_, path), path, message);
  }

 private:
  const YamlNode& root_;
};

void check_corpus(const Checker& check, const Config& config) {
  const SplitConfig& splits = config.corpus.splits;
  check.require(splits.validation != splits.train, "corpus.splits.validation",
                "must differ from corpus.splits.train (" + splits.train + ")");
  check.require(splits.test != splits.train && splits.test != splits.validation,
                "corpus.splits.test",
                "must differ from the train and validation splits, got " + splits.test);
  const SharesConfig& shares = config.corpus.shares;
  check.require(shares.train + shares.validation + shares.test > 0.0, "corpus.shares",
                "must not all be 0");
  check.require(!config.corpus.retrieval.kinds.empty(), "corpus.retrieval.kinds",
                "must hold at least one kind");
  const int shortest = config.corpus.context_lengths.front();
  for (std::size_t i = 0; i < config.precisions.size(); ++i) {
    const Scheme& scheme = config.precisions[i];
    check.require(scheme.sink_tokens < shortest, "corpus.context_lengths",
                  "must be longer than the " + std::to_string(scheme.sink_tokens) +
                      " sink tokens of " + scheme.name + ", got " + std::to_string(shortest));
  }
}

void check_window(const Checker& check, const Config& config) {
  const int least = config.window.cap + 1;
  check.require(config.trace.top == 0 || config.trace.top >= least, "trace.top",
                "must be 0 or at least window.cap + 1 = " + std::to_string(least) + ", got " +
                    std::to_string(config.trace.top));
  check.require(config.window.alpha <= config.trace.alpha_max, "window.alpha",
                "must be at most trace.alpha_max = " + base::number(config.trace.alpha_max) +
                    ", got " + base::number(config.window.alpha));
}

void check_allocation(const Checker& check, const Config& config) {
  const AllocationConfig& a = config.allocation;
  if (!a.wanted()) return;
  const auto precision = [&](const std::string& name) {
    return std::find_if(config.precisions.begin(), config.precisions.end(),
                        [&](const Scheme& scheme) { return scheme.name == name; });
  };
  const auto base = precision(a.base);
  check.require(base != config.precisions.end(), "allocation.base",
                "must be one of the precisions, got " + a.base);
  check.require(precision(a.name) == config.precisions.end(), "allocation.name",
                "must not be the name of another precision, got " + a.name);
  check.require(base->prefill == PrefillMode::exact, "allocation.base",
                "must have an exact prefill, since many allocations share one prefix");
  check.require(!needs_calibration(*base), "allocation.base",
                "must need no calibration of its caches, got " + a.base);
  check.require((a.budget > 0.0) != (a.floor > 0.0), "allocation.budget",
                "either budget or floor must be given, and not both");
  check.require(a.budget > 0.0 || a.estimator != "greedy", "allocation.estimator",
                "greedy selects up to a budget; a floor needs auto, spared or paths");
  check.require(!a.tensors.empty(), "allocation.tensors", "must hold key, value or both");
  check.require(
      a.context > base->sink_tokens, "allocation.context",
      "must be longer than the " + std::to_string(base->sink_tokens) + " sink tokens of " + a.base);
}

void check_corrector(const Checker& check, const Config& config) {
  const CorrectorConfig& corrector = config.corrector;
  check.require(!corrector.takes("hidden") || config.trace.hidden, "corrector.inputs",
                "hidden needs traces with hidden states: set trace.hidden to true");
  check.require(corrector.takes("logits"), "corrector.inputs", "must contain logits");
  check.require(corrector.form == "candidate" || corrector.architecture != "transformer",
                "corrector.form",
                "must be candidate where corrector.architecture is transformer, which sees the "
                "whole window anyway");
  check.require(
      corrector.transformer.width % corrector.transformer.heads == 0, "corrector.transformer.heads",
      "must divide corrector.transformer.width = " + std::to_string(corrector.transformer.width) +
          ", got " + std::to_string(corrector.transformer.heads));
  check.require(
      corrector.objective == "paper" || corrector.temperature == 1.0, "corrector.temperature",
      "must be 1 unless corrector.objective is paper, got " + base::number(corrector.temperature));
}

void check_threshold(const Checker& check, const OnlineConfig& online) {
  check.require(online.low <= online.high, "threshold.online.high",
                "must be at least threshold.online.low = " + base::number(online.low) + ", got " +
                    base::number(online.high));
}

void check_search(const Checker& check, const TrainingConfig& training) {
  constexpr std::size_t kMost = 256;
  std::size_t combinations = 1;
  for (const auto& [key, values] : training.search) {
    combinations *= values.size();
    check.require(
        combinations <= kMost, "training.search",
        "has more than " + std::to_string(kMost) + " combinations; search fewer keys at a time");
  }
}

}  // namespace

const YamlNode& locate(const YamlNode& root, std::string_view path) {
  const YamlNode* node = &root;
  while (!path.empty() && node->kind == YamlNode::Kind::map) {
    const std::size_t end = std::min(path.find('.'), path.size());
    const YamlNode* child = node->find(path.substr(0, end));
    if (child == nullptr) break;
    node = child;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return *node;
}

void check_config(const Config& config, const YamlNode& root) {
  const Checker check(root);
  check.require(!config.model.path.empty(), "model.path", "is required: the model file or folder");
  check.require(!config.corpus.path.empty(), "corpus.path",
                "is required: the folder of the corpus");
  check.require(!config.precisions.empty(), "precisions",
                "is required: at least one cache scheme, such as K4V4");
  check_corpus(check, config);
  check_allocation(check, config);
  check_window(check, config);
  check_corrector(check, config);
  check_threshold(check, config.threshold.online);
  check_search(check, config.training);
}

}  // namespace dgap::schemas
