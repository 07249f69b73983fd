#include "schemas/results/trained.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxJson = std::size_t{4} << 20;
constexpr std::uint64_t kMaxWeights = std::uint64_t{256} << 20;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 48;
constexpr double kLargest = std::numeric_limits<double>::max();

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
json number_or_null(const std::optional<double>& value) {
  return value ? number_or_null(*value) : json(nullptr);
}
json numbers_or_null(const std::vector<double>& values) {
  json array = json::array();
  for (const double value : values) array.push_back(number_or_null(value));
  return array;
}

json to_json(const NetworkInfo& info) {
  return {{"architecture", info.architecture},
          {"inputs", info.inputs},
          {"tensors", info.tensors},
          {"layers", info.layers},
          {"mass", info.mass},
          {"constant_risk", info.constant_risk}};
}

json to_json(const TrainingFigures& f) {
  return {{"training_steps", f.training_steps},
          {"validation_steps", f.validation_steps},
          {"positive_rate", number_or_null(f.positive_rate)},
          {"positive_weight", f.positive_weight},
          {"objective", f.objective},
          {"initial_validation_loss", number_or_null(f.initial_validation_loss)},
          {"train_loss", numbers_or_null(f.train_loss)},
          {"validation_loss", numbers_or_null(f.validation_loss)},
          {"chosen_epoch", f.chosen_epoch},
          {"auc", number_or_null(f.auc)},
          {"kl_before", number_or_null(f.kl_before)},
          {"kl_after", number_or_null(f.kl_after)}};
}

NetworkInfo read_info(JsonObject object) {
  NetworkInfo info;
  info.architecture = object.choice("architecture", {"linear", "mlp", "constant", "none"});
  info.inputs = object.texts("inputs", 16);
  info.tensors = object.text("tensors");
  info.layers = static_cast<int>(object.integer("layers", 0, 64));
  info.mass = object.boolean("mass");
  info.constant_risk = object.real("constant_risk", 0.0, 1.0);
  object.refuse_others();
  return info;
}

double real_or_nan(JsonObject& object, std::string_view key) {
  return object.real_or_null(key, -kLargest, kLargest)
      .value_or(std::numeric_limits<double>::quiet_NaN());
}

std::vector<double> losses(JsonObject& object, std::string_view key) {
  const json& array = object.any(key);
  if (!array.is_array()) object.fail(key, "expected an array of numbers");
  std::vector<double> values;
  for (const json& value : array) {
    if (!value.is_number() && !value.is_null()) object.fail(key, "expected numbers or null");
    values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : value.get<double>());
  }
  return values;
}

TrainingFigures read_figures(JsonObject object) {
  TrainingFigures f;
  f.training_steps = object.integer("training_steps", 0, kMaxCount);
  f.validation_steps = object.integer("validation_steps", 0, kMaxCount);
  f.positive_rate = real_or_nan(object, "positive_rate");
  f.positive_weight = object.real("positive_weight", 0.0, kLargest);
  f.objective = object.choice("objective", {"", "paper", "extended"});
  f.initial_validation_loss = real_or_nan(object, "initial_validation_loss");
  f.train_loss = losses(object, "train_loss");
  f.validation_loss = losses(object, "validation_loss");
  f.chosen_epoch = static_cast<int>(
      object.integer("chosen_epoch", 0, static_cast<std::int64_t>(f.train_loss.size())));
  f.auc = object.real_or_null("auc", 0.0, 1.0);
  f.kl_before = object.real_or_null("kl_before", 0.0, kLargest);
  f.kl_after = object.real_or_null("kl_after", 0.0, kLargest);
  object.refuse_others();
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

std::vector<fs::path> trained_files(const fs::path& directory, const std::string& precision) {
  return {directory / (precision + ".safetensors"), directory / (precision + ".json")};
}

void write_trained(const fs::path& directory, const std::string& precision,
                   const TrainedNetwork& network) {
  check_finite(network.tensors);
  const auto files = trained_files(directory, precision);
  const std::string weights = encode_safetensors(network.tensors);
  const json object = {{"format", "dgap-network"},
                       {"version", 1},
                       {"key", network.key},
                       {"weights_sha256", base::sha256_hex(weights)},
                       {"network", to_json(network.info)},
                       {"figures", to_json(network.figures)}};
  fs::create_directories(directory);
  base::write_file_atomically(files[0], weights);
  base::write_file_atomically(files[1], object.dump(2) + "\n");
}

TrainedNetwork read_trained(const fs::path& directory, const std::string& precision) {
  const auto files = trained_files(directory, precision);
  const std::string name = files[1].string();
  const json document = parse_json_object(base::read_file(files[1], kMaxJson), name, 8);
  JsonObject object(document, name, "");
  object.choice("format", {"dgap-network"});
  object.integer("version", 1, 1);
  TrainedNetwork network;
  network.key = object.text("key");
  const std::string sha256 = object.sha256("weights_sha256");
  network.info = read_info(object.object("network"));
  network.figures = read_figures(object.object("figures"));
  object.refuse_others();
  const std::string weights = base::read_file(files[0], kMaxWeights);
  if (base::sha256_hex(weights) != sha256) {
    throw base::IoError(files[0].string() + ": SHA-256 differs from weights_sha256 in " + name +
                        "; train again");
  }
  network.tensors = decode_safetensors(weights, files[0].string());
  return network;
}

}  // namespace dgap::schemas
