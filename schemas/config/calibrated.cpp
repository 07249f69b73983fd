#include "schemas/config/calibrated.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"

namespace dgap::schemas {
namespace {

constexpr std::size_t kKeyDigits = 16;

}  // namespace

std::filesystem::path calibration_file(const Config& config, const Scheme& scheme) {
  if (!scheme.calibration.empty()) return scheme.calibration;
  Config key = config;
  key.decode = {}, key.trace = {}, key.window = {};
  key.precisions = {scheme};
  key.precisions.front().name = "calibration";
  const std::string hash = base::sha256_hex(to_stage_yaml(key, "collect"));
  return config.run_directory() / "calibration" / (hash.substr(0, kKeyDigits) + ".json");
}

std::vector<Scheme> calibrated_schemes(const Config& config) {
  std::vector<Scheme> schemes = config.precisions;
  for (Scheme& scheme : schemes) {
    if (!needs_calibration(scheme)) continue;
    const std::filesystem::path file = calibration_file(config, scheme);
    const std::string hash = base::sha256_hex(base::read_file(file));
    if (!scheme.calibration_sha256.empty() && scheme.calibration_sha256 != hash)
      throw base::IoError(file.string() + ": is not the calibration that precision " + scheme.name +
                          " names: its SHA-256 is " + hash);
    scheme.calibration = file.string();
    scheme.calibration_sha256 = hash;
  }
  return schemes;
}

std::vector<Scheme> recorded_schemes(const Config& config) {
  std::vector<Scheme> schemes = calibrated_schemes(config);
  for (std::size_t p = 0; p < schemes.size(); ++p)
    schemes[p].calibration = config.precisions[p].calibration;
  return schemes;
}

}  // namespace dgap::schemas
