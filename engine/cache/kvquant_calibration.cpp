#include "engine/cache/kvquant_calibration.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/half.hpp"
#include "engine/cache/built_once.hpp"
#include "engine/cache/kvquant_row.hpp"
#include "engine/cache/level_fit.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {
namespace {

using schemas::TensorCalibration;
using schemas::TensorScheme;

constexpr std::int64_t kChunkRows = 64;

/// Calls take(row) for every row of finite values.
template <class Take>
void for_each_row(std::size_t width, std::int64_t rows, const RowReader& read, const Take& take) {
  std::vector<float> chunk(static_cast<std::size_t>(kChunkRows) * width);
  for (std::int64_t first = 0; first < rows; first += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, rows - first);
    read(first, first + count, chunk.data());
    std::transform(chunk.begin(), chunk.end(), chunk.begin(), finite_or_zero);
    for (std::int64_t r = 0; r < count; ++r)
      take(std::span<const float>(chunk).subspan(static_cast<std::size_t>(r) * width, width));
  }
}

/// The quantile at `level` in [0, 1] with linear interpolation, rounded to FP16; reorders x.
float quantile(std::vector<float>& x, double level) {
  const double place = level * static_cast<double>(x.size() - 1);
  const auto low = static_cast<std::ptrdiff_t>(place);
  std::nth_element(x.begin(), x.begin() + low, x.end());
  const double a = static_cast<double>(x[static_cast<std::size_t>(low)]);
  const double part = place - static_cast<double>(low);
  double value = a;
  if (part > 0.0) {
    const float next = *std::min_element(x.begin() + low + 1, x.end());
    value += (static_cast<double>(next) - a) * part;
  }
  return base::from_half(to_half_saturated(static_cast<float>(value)));
}

/// Thresholds of every channel: quantiles (share / 2, 1 - share / 2) of its values.
void find_thresholds(double share, std::size_t width, std::int64_t rows, const RowReader& read,
                     TensorCalibration& made) {
  std::vector<std::vector<float>> channels(width);
  for (auto& channel : channels) channel.reserve(static_cast<std::size_t>(rows));
  for_each_row(width, rows, read, [&](std::span<const float> row) {
    for (std::size_t c = 0; c < width; ++c) channels[c].push_back(row[c]);
  });
  made.lower.assign(width, 0.0f), made.upper.assign(width, 0.0f);
  tbb::parallel_for(std::size_t{0}, width, [&](std::size_t c) {
    if (rows == 0) return;
    made.lower[c] = quantile(channels[c], share / 2);
    made.upper[c] = std::max(quantile(channels[c], 1.0 - share / 2), made.lower[c]);
  });
}

void add_inliers_by_channel(std::span<const float> row, const TensorCalibration& thresholds,
                            LevelFit& fit) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    const float low = thresholds.lower[c], high = thresholds.upper[c];
    if (row[c] >= low && row[c] <= high)
      fit.add(to_unit(row[c], (high + low) / 2, (high - low) / 2));
  }
}

void add_inliers_of_token(std::span<const float> row, int per_end, std::vector<std::uint8_t>& marks,
                          LevelFit& fit) {
  const RowRange range = mark_outliers(row, per_end, marks);
  for (std::size_t c = 0; c < row.size(); ++c)
    if (marks[c] == 0) fit.add(to_unit(row[c], range.offset, range.scale));
}

}  // namespace

TensorCalibration calibrate_kvquant(const TensorScheme& tensor, int width, std::int64_t rows,
                                    const RowReader& read) {
  const auto channels = static_cast<std::size_t>(width);
  TensorCalibration made;
  LevelFit fit;
  if (tensor.axis == schemas::GroupAxis::channel) {
    find_thresholds(tensor.outliers, channels, rows, read, made);
    for_each_row(channels, rows, read,
                 [&](std::span<const float> row) { add_inliers_by_channel(row, made, fit); });
  } else {
    std::vector<std::uint8_t> marks;
    const int per_end = outliers_per_end(tensor.outliers, width);
    for_each_row(channels, rows, read, [&](std::span<const float> row) {
      add_inliers_of_token(row, per_end, marks, fit);
    });
  }
  made.levels = fit.levels(1 << tensor.bits);
  made.reads = tensor.q_norm ? fit.normalised_reads(made.levels) : made.levels;
  return made;
}

std::shared_ptr<const schemas::Calibration> load_calibration(const schemas::Scheme& scheme,
                                                             const schemas::ModelShape& model) {
  if (scheme.calibration.empty())
    throw base::FailedError("scheme '" + scheme.name +
                            "' needs a calibration file, which `dgap collect` makes");
  const auto read = [&] {
    return std::make_shared<const schemas::Calibration>(
        schemas::read_calibration(scheme.calibration, scheme.calibration_sha256));
  };
  static BuiltOnce<std::string, schemas::Calibration> known;  // by SHA-256
  const std::string& hash = scheme.calibration_sha256;
  const auto found = hash.empty() ? read() : known.get(hash, read);
  schemas::check_calibration(scheme, *found, model);
  return found;
}

}  // namespace dgap::engine
