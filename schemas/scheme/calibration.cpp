#include "schemas/scheme/calibration.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/strict_json.hpp"
#include "schemas/scheme/index_set.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "dgap-kv-calibration";
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMaxDepth = 8, kMaxWidth = 1 << 16, kMaxLevels = 16;

json tensor_json(const TensorCalibration& tensor) {
  json object = {{"levels", tensor.levels}, {"reads", tensor.reads}};
  if (!tensor.lower.empty()) object["lower"] = tensor.lower, object["upper"] = tensor.upper;
  return object;
}

std::vector<float> read_numbers(JsonObject& object, const char* key, std::size_t max_count) {
  const json& list = object.any(key);
  if (!list.is_array() || list.size() > max_count)
    object.fail(key, "expected at most " + std::to_string(max_count) + " numbers");
  constexpr double kTop = std::numeric_limits<float>::max();
  std::vector<float> numbers;
  for (const json& entry : list) {
    if (!entry.is_number() || !(std::abs(entry.get<double>()) <= kTop))
      object.fail(key, "expected a list of numbers");
    numbers.push_back(entry.get<float>());
  }
  return numbers;
}

TensorCalibration read_tensor(JsonObject object) {
  TensorCalibration tensor;
  tensor.levels = read_numbers(object, "levels", kMaxLevels);
  tensor.reads = read_numbers(object, "reads", kMaxLevels);
  if (tensor.reads.size() != tensor.levels.size())
    object.fail("reads", "expected as many numbers as levels");
  if (!std::is_sorted(tensor.levels.begin(), tensor.levels.end()))
    object.fail("levels", "expected ascending numbers");
  if (object.value().contains("lower")) {
    tensor.lower = read_numbers(object, "lower", kMaxWidth);
    tensor.upper = read_numbers(object, "upper", kMaxWidth);
    if (tensor.lower.size() != tensor.upper.size())
      object.fail("upper", "expected as many numbers as in lower");
    for (std::size_t c = 0; c < tensor.lower.size(); ++c)
      if (tensor.lower[c] > tensor.upper[c]) object.fail("upper", "lies below lower");
  }
  object.refuse_others();
  return tensor;
}

LayerCalibration read_layer(const json& value, const std::string& file, const std::string& path) {
  JsonObject object(value, file, path);
  LayerCalibration layer;
  if (value.contains("key")) layer.key = read_tensor(object.object("key"));
  if (value.contains("value")) layer.value = read_tensor(object.object("value"));
  object.refuse_others();
  return layer;
}

bool fits(const TensorScheme& scheme, const TensorCalibration& tensor, std::size_t width) {
  if (scheme.quantizer != Quantizer::kvquant) return true;
  const std::size_t channels = scheme.axis == GroupAxis::channel ? width : 0;
  return tensor.levels.size() == std::size_t{1} << scheme.bits && tensor.lower.size() == channels;
}

}  // namespace

std::string encode_calibration(const Calibration& calibration) {
  json layers = json::array();
  for (const LayerCalibration& layer : calibration.layers) {
    json& object = layers.emplace_back(json::object());
    if (!layer.key.levels.empty()) object["key"] = tensor_json(layer.key);
    if (!layer.value.levels.empty()) object["value"] = tensor_json(layer.value);
  }
  const json whole = {{"format", kFormat},
                      {"version", 1},
                      {"model_sha256", calibration.model_sha256},
                      {"tokens", calibration.tokens},
                      {"layers", layers}};
  return whole.dump() + "\n";
}

Calibration read_calibration(const std::filesystem::path& file, const std::string& sha256) {
  const std::string name = file.string(), bytes = base::read_file(file, kMaxBytes);
  if (!sha256.empty() && base::sha256_hex(bytes) != sha256)
    throw base::IoError(name +
                        ": is not the calibration that the scheme was used with, whose "
                        "SHA-256 is " +
                        sha256);
  const json whole = parse_json_object(bytes, name, kMaxDepth);
  JsonObject object(whole, name, "");
  object.choice("format", {kFormat});
  const std::int64_t version = object.integer("version", 1, 1 << 30);
  if (version != 1)
    object.fail("version", "is " + std::to_string(version) + "; this build reads version 1");
  Calibration calibration;
  calibration.model_sha256 = object.text("model_sha256");
  calibration.tokens = object.integer("tokens", 0, std::int64_t{1} << 40);
  const json& layers = object.any("layers");
  if (!layers.is_array() || layers.size() > kMaxIndex + 1)
    object.fail("layers", "expected a list of layers");
  for (const json& layer : layers)
    calibration.layers.push_back(
        read_layer(layer, name, "layers." + std::to_string(calibration.layers.size())));
  object.refuse_others();
  return calibration;
}

void check_calibration(const Scheme& scheme, const Calibration& calibration,
                       const ModelShape& model) {
  bool right = std::cmp_equal(calibration.layers.size(), model.layers);
  const auto width =
      static_cast<std::size_t>(model.kv_heads) * static_cast<std::size_t>(model.head_dim);
  for (int layer = 0; right && layer < model.layers; ++layer) {
    const HeadScheme heads = head_scheme(scheme, model.layers, layer, 0);
    const LayerCalibration& own = calibration.layers[static_cast<std::size_t>(layer)];
    right = fits(heads.key, own.key, width) && fits(heads.value, own.value, width);
  }
  if (!right)
    throw base::FailedError("scheme '" + scheme.name + "': the calibration " + scheme.calibration +
                            " is of another model, or of other bits; make it anew");
}

}  // namespace dgap::schemas
