#pragma once
#include <cstdint>
#include <vector>

#include "engine/cache/row_reader.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::engine {

/// Per-channel mean and RMS of a prefix, both FP16: x -> (x - mean) / rms and back. Empty where the
/// scheme neither centres nor normalises.
class Centring {
 public:
  Centring() = default;
  /// Over rows [begin, end): sums in f64 in the order of tokens; RMS around the FP16 mean (around 0
  /// without `center`), at least 1e-6. Without rows: mean 0, RMS 1.
  Centring(const schemas::TensorScheme& tensor, int head_dim, std::int64_t begin, std::int64_t end,
           const RowReader& read);

  bool empty() const { return mean_.empty(); }
  const std::vector<float>& mean() const { return mean_; }
  const std::vector<float>& rms() const { return rms_; }
  /// FP16 statistics that the scheme has to store.
  std::int64_t bytes() const { return bytes_; }

  /// x [rows, head_dim] -> (x - mean) / rms, in place.
  void apply(std::int64_t rows, float* x) const;
  /// x -> x * rms + mean.
  void undo(std::int64_t rows, float* x) const;
  /// x -> x * rms + mass * mean, mass [rows]: `undo` of a weighted sum of rows.
  void undo_sum(std::int64_t rows, const float* mass, float* x) const;

 private:
  std::vector<float> mean_, rms_;  // FP16 values, [head_dim]
  std::int64_t bytes_ = 0;
};

}  // namespace dgap::engine
