#include "schemas/results/trained.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "schemas/results/json_file.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxWeights = std::uint64_t{256} << 20;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 48;

json number_or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const std::optional<RiskScale>& c) {
  if (!c) return nullptr;
  return {{"scale", c->scale}, {"offset", c->offset}};
}

json to_json(const NetworkInfo& info) {
  return {{"architecture", info.architecture},
          {"inputs", info.inputs},
          {"tensors", info.tensors},
          {"layers", info.layers},
          {"mass", info.mass},
          {"constant_risk", info.constant_risk},
          {"form", info.form},
          {"heads", info.heads},
          {"rank", info.rank},
          {"mass_layers", info.mass_layers},
          {"escalate", info.escalate},
          {"calibration", to_json(info.calibration)}};
}

json to_json(const std::optional<CalibrationErrors>& e) {
  if (!e) return nullptr;
  return {{"before", e->before}, {"after", e->after}};
}

json to_json(const TrainingFigures& f) {
  return {{"training_steps", f.training_steps},
          {"validation_steps", f.validation_steps},
          {"positive_rate", f.positive_rate},
          {"positive_weight", f.positive_weight},
          {"objective", f.objective},
          {"initial_validation_loss", f.initial_validation_loss},
          {"train_loss", f.train_loss},
          {"validation_loss", f.validation_loss},
          {"chosen_epoch", f.chosen_epoch},
          {"auc", number_or_null(f.auc)},
          {"kl_before", number_or_null(f.kl_before)},
          {"kl_after", number_or_null(f.kl_after)},
          {"calibration_error", to_json(f.calibration_error)},
          {"escalate_rate", number_or_null(f.escalate_rate)},
          {"escalate_auc", number_or_null(f.escalate_auc)},
          {"settings_tried", f.settings_tried},
          {"setting", f.setting},
          {"seed_losses", f.seed_losses},
          {"curve", {{"steps", f.curve_steps}, {"validation_loss", f.curve_losses}}}};
}

std::string choice(const ResultObject& object, const char* key,
                   std::initializer_list<std::string_view> allowed) {
  std::string text = object.text(key);
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
    object.fail(key, "is \"" + text + "\", which this version does not know");
  }
  return text;
}

/// A number from `low` to `high`, or null.
std::optional<double> bounded(const ResultObject& object, const char* key, double low,
                              double high) {
  const std::optional<double> value = object.optional_number(key);
  if (value && !(*value >= low && *value <= high)) {
    object.fail(key, "must be from " + base::number(low) + " to " + base::number(high) + ", got " +
                         base::number(*value));
  }
  return value;
}

std::optional<RiskScale> read_risk_scale(const ResultObject& network) {
  if (network.is_null("calibration")) return std::nullopt;
  const ResultObject object = network.object("calibration");
  const RiskScale found{object.number("scale"), object.number("offset")};
  if (!(found.scale > 0.0))
    object.fail("scale", "must be above 0, got " + base::number(found.scale));
  object.finish();
  return found;
}

std::optional<CalibrationErrors> read_errors(const ResultObject& figures) {
  if (figures.is_null("calibration_error")) return std::nullopt;
  const ResultObject object = figures.object("calibration_error");
  const CalibrationErrors errors{object.number_or_nan("before"), object.number_or_nan("after")};
  object.finish();
  return errors;
}

NetworkInfo read_info(const ResultObject& object) {
  NetworkInfo info;
  info.architecture =
      choice(object, "architecture", {"linear", "mlp", "transformer", "constant", "none"});
  info.inputs = object.texts("inputs");
  info.tensors = object.text("tensors");
  info.layers = static_cast<int>(object.integer("layers", 0, 64));
  info.mass = object.boolean("mass");
  info.constant_risk = bounded(object, "constant_risk", 0.0, 1.0).value_or(0.0);
  info.form = choice(object, "form", {"candidate", "window"});
  info.heads = static_cast<int>(object.integer("heads", 0, 64));
  info.rank = static_cast<int>(object.integer("rank", 0, 4096));
  info.mass_layers = static_cast<int>(object.integer("mass_layers", 0, 64));
  info.escalate = object.boolean("escalate");
  info.calibration = read_risk_scale(object);
  object.finish();
  return info;
}

TrainingFigures read_figures(const ResultObject& object) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  TrainingFigures f;
  f.training_steps = object.integer("training_steps", 0, kMaxCount);
  f.validation_steps = object.integer("validation_steps", 0, kMaxCount);
  f.positive_rate = object.number("positive_rate");
  f.positive_weight = object.number("positive_weight");
  f.objective = choice(object, "objective", {"", "paper", "extended"});
  f.initial_validation_loss = object.number_or_nan("initial_validation_loss");
  f.train_loss = object.numbers_or_nan("train_loss");
  f.validation_loss = object.numbers_or_nan("validation_loss");
  f.chosen_epoch = static_cast<int>(
      object.integer("chosen_epoch", 0, static_cast<std::int64_t>(f.train_loss.size())));
  f.auc = bounded(object, "auc", 0.0, 1.0);
  f.kl_before = bounded(object, "kl_before", 0.0, kLargest);
  f.kl_after = bounded(object, "kl_after", 0.0, kLargest);
  f.calibration_error = read_errors(object);
  f.escalate_rate = bounded(object, "escalate_rate", 0.0, 1.0);
  f.escalate_auc = bounded(object, "escalate_auc", 0.0, 1.0);
  f.settings_tried = static_cast<int>(object.integer("settings_tried", 1, 1 << 20));
  const ResultObject setting = object.object("setting");
  for (const std::string& key : setting.keys()) f.setting[key] = setting.text(key.c_str());
  f.seed_losses = object.numbers_or_nan("seed_losses");
  const ResultObject curve = object.object("curve");
  for (const int steps : curve.integers("steps")) f.curve_steps.push_back(steps);
  f.curve_losses = curve.numbers_or_nan("validation_loss");
  if (f.curve_losses.size() != f.curve_steps.size()) {
    curve.fail("validation_loss", "has not as many values as steps");
  }
  curve.finish();
  object.finish();
  return f;
}

void check_finite(const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const bool finite = std::all_of(tensor.data.begin(), tensor.data.end(),
                                    [](float x) { return std::isfinite(x); });
    if (!finite) throw base::FailedError("tensor " + name + " is not finite; nothing was written");
  }
}

}  // namespace

double chosen_loss(const TrainingFigures& figures) {
  return figures.chosen_epoch == 0 ? figures.initial_validation_loss
                                   : figures.validation_loss[figures.chosen_epoch - 1];
}

std::vector<fs::path> trained_files(const fs::path& directory, const std::string& precision) {
  return {directory / (precision + ".safetensors"), directory / (precision + ".json")};
}

void write_trained(const fs::path& directory, const std::string& precision,
                   const TrainedNetwork& network) {
  check_finite(network.tensors);
  const auto files = trained_files(directory, precision);
  const std::string weights = encode_safetensors(network.tensors);
  const json object = {{"version", 1},
                       {"key", network.key},
                       {"weights_sha256", base::sha256_hex(weights)},
                       {"network", to_json(network.info)},
                       {"figures", to_json(network.figures)}};
  fs::create_directories(directory);
  base::write_file_atomically(files[0], weights);
  write_json_file(files[1], object);
}

TrainedNetwork read_trained(const fs::path& directory, const std::string& precision) {
  const auto files = trained_files(directory, precision);
  const std::string name = files[1].string();
  const json document = read_json_file(files[1]);
  const ResultObject object(document, name + ":");
  object.integer("version", 1, 1);
  TrainedNetwork network;
  network.key = object.text("key");
  const std::string sha256 = object.text("weights_sha256");
  network.info = read_info(object.object("network"));
  network.figures = read_figures(object.object("figures"));
  object.finish();
  const std::string weights = base::read_file(files[0], kMaxWeights);
  if (base::sha256_hex(weights) != sha256) {
    throw base::IoError(files[0].string() + ": SHA-256 differs from weights_sha256 in " + name +
                        "; train again");
  }
  network.tensors = decode_safetensors(weights, files[0].string());
  return network;
}

}  // namespace dgap::schemas
