#pragma once
#include <filesystem>
#include <vector>

#include "schemas/config/config.hpp"

/// The calibration files of a run's schemes (schemas/scheme/calibration.hpp).
namespace dgap::schemas {

/// The file that a scheme of the run names, or that the run makes for it:
/// `<run>/calibration/<16 hexadecimal digits>.json`, of what it depends on in the configuration.
std::filesystem::path calibration_file(const Config& config, const Scheme& scheme);

/// The configuration's schemes, ready to decode with: those that need a calibration with its file
/// and SHA-256. IoError where a file is not there: `dgap collect` makes it.
std::vector<Scheme> calibrated_schemes(const Config& config);

/// The same, as traces and bundles record them: hashes, but no file inside the run directory.
std::vector<Scheme> recorded_schemes(const Config& config);

}  // namespace dgap::schemas
