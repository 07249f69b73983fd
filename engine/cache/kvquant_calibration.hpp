#pragma once
#include <memory>

#include "engine/cache/row_reader.hpp"
#include "schemas/scheme/calibration.hpp"

namespace dgap::engine {

/// What a kvquant tensor of one layer takes from calibration rows [0, rows) of width kv_heads *
/// head_dim (docs/quantizers.md "KVQuant"), which `read` gives as often as asked for. Parallel over
/// channels; the same for any number of threads.
schemas::TensorCalibration calibrate_kvquant(const schemas::TensorScheme& tensor, int width,
                                             std::int64_t rows, const RowReader& read);

/// The calibration file of a scheme, read once per process; also checks that it fits. The errors of
/// read_calibration and check_calibration, and FailedError where the scheme names no
/// file.
std::shared_ptr<const schemas::Calibration> load_calibration(const schemas::Scheme& scheme,
                                                             const schemas::ModelShape& model);

}  // namespace dgap::engine
