#include "evaluator/training_section.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "evaluator/plots.hpp"
#include "evaluator/report_format.hpp"
#include "schemas/results/trained.hpp"

namespace dgap::evaluator {
namespace {

using schemas::TrainingFigures;

schemas::TrainedNetwork read_corrector(const schemas::Config& config,
                                       const schemas::Scheme& scheme) {
  return schemas::read_trained(config.run_directory() / "corrector", scheme.name);
}

std::string form_of(const schemas::NetworkInfo& info) {
  std::string inputs;
  for (const std::string& input : info.inputs) inputs += (inputs.empty() ? "" : ", ") + input;
  const std::string form = info.form == "window" ? " of the window" : "";
  return escape(info.architecture + form + " (" + inputs + ")");
}

std::string size_of(const schemas::TrainedNetwork& network) {
  std::size_t numbers = 0;
  for (const auto& [name, tensor] : network.tensors) numbers += tensor.data.size();
  const double kib = static_cast<double>(numbers * sizeof(float)) / 1024.0;
  return std::to_string(numbers) + " (" + one_digit(kib) + " KiB)";
}

std::string settings_of(const TrainingFigures& figures) {
  std::string text = std::to_string(figures.settings_tried);
  for (const auto& [key, value] : figures.setting) text += "<br>" + escape(key + ": " + value);
  return text;
}

/// "0.412", or mean and deviation of several seeds.
std::string seeds_of(const TrainingFigures& figures) {
  const std::vector<double>& losses = figures.seed_losses;
  if (losses.empty()) return "–";
  const auto count = static_cast<double>(losses.size());
  double mean = 0.0, squares = 0.0;
  for (const double loss : losses) mean += loss / count;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  if (losses.size() == 1) return significant(mean);
  return significant(mean) + " ± " + significant(std::sqrt(squares / (count - 1.0))) + " (" +
         std::to_string(losses.size()) + " seeds)";
}

}  // namespace

std::vector<std::filesystem::path> training_files(const schemas::Config& config) {
  std::vector<std::filesystem::path> files;
  for (const schemas::Scheme& scheme : config.precisions) {
    for (auto& file : schemas::trained_files(config.run_directory() / "corrector", scheme.name)) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

std::string training_table(const schemas::Config& config) {
  std::string table = "<table>" + row({"precision", "corrector", "numbers", "training steps",
                                       "settings tried", "validation loss"},
                                      "th");
  for (const schemas::Scheme& scheme : config.precisions) {
    const auto network = read_corrector(config, scheme);
    const TrainingFigures& f = network.figures;
    table += row({escape(scheme.name), form_of(network.info), size_of(network),
                  std::to_string(f.training_steps), settings_of(f), seeds_of(f)},
                 "td");
  }
  return table + "</table>";
}

std::string learning_curves(const schemas::Config& config) {
  std::vector<Line> lines;
  double most = 1.0, low = 1.0;
  for (const schemas::Scheme& scheme : config.precisions) {
    const TrainingFigures f = read_corrector(config, scheme).figures;
    if (f.curve_steps.empty() || !(f.initial_validation_loss > 0.0)) continue;
    Line line{scheme.name, {}, {}, static_cast<int>(lines.size() % 10)};
    for (std::size_t i = 0; i < f.curve_steps.size(); ++i) {
      line.x.push_back(static_cast<double>(f.curve_steps[i]));
      line.y.push_back(f.curve_losses[i] / f.initial_validation_loss);
      most = std::max(most, line.x.back());
      low = std::min(low, line.y.back());
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return "";
  return line_plot({"training steps", false, 0.0, most},
                   {"share of the untrained loss", false, low - 0.1 * (1.0 - low) - 0.01, 1.0},
                   lines, {}, {1.0});
}

}  // namespace dgap::evaluator
