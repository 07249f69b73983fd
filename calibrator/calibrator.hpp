#pragma once
#include "base/progress.hpp"
#include "schemas/config/config.hpp"

namespace dgap::calibrator {

/// Eq. 4 windows and Eq. 9 label statistics from validation traces: <run>/windows.json.
void calibrate(const schemas::Config& config, base::Progress& progress);

/// tau per precision and its curve, from validation traces and the trained networks:
/// <run>/threshold.json.
void threshold(const schemas::Config& config, base::Progress& progress);

/// Assembles <run>/bundle/ from windows, networks and thresholds; the last word on what ships.
void export_bundle(const schemas::Config& config, base::Progress& progress);

}  // namespace dgap::calibrator
