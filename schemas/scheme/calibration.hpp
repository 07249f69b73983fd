#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/scheme/scheme.hpp"

/// What kvquant's tensors take from calibration text (docs/quantizers.md), as a file:
/// {"format": "dgap-kv-calibration", "version": 1, "model_sha256", "tokens", "layers": [{"key":
/// {...}, "value": {...}}, ...]}, one entry per layer of the model.
namespace dgap::schemas {

/// Of one tensor of one layer; empty where the tensor has another quantiser.
struct TensorCalibration {
  std::vector<float> lower, upper;  // axis channel: FP16 thresholds, [kv_heads * head_dim]
  std::vector<float> levels;        // 2^bits ascending levels of inliers, whose range is [-1, 1]
  std::vector<float> reads;         // what their codes read; other than levels with q_norm
  bool operator==(const TensorCalibration&) const = default;
};

struct LayerCalibration {
  TensorCalibration key, value;
  bool operator==(const LayerCalibration&) const = default;
};

struct Calibration {
  std::string model_sha256;
  std::int64_t tokens = 0;  // that it was made of, sinks not counted
  std::vector<LayerCalibration> layers;
  bool operator==(const Calibration&) const = default;
};

/// The file's bytes: the same for equal calibrations.
std::string encode_calibration(const Calibration& calibration);

/// IoError naming file and key on anything that is not such a file, and where `sha256` is not empty
/// and not the file's.
Calibration read_calibration(const std::filesystem::path& file, const std::string& sha256);

/// FailedError where it does not fit the scheme at this shape.
void check_calibration(const Scheme& scheme, const Calibration& calibration,
                       const ModelShape& model);

}  // namespace dgap::schemas
