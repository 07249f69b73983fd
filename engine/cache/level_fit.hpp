#pragma once
#include <vector>

namespace dgap::engine {

/// A weighted sample of numbers in [-1, 1], kept as mass and sum of fine bins, and its quantiser:
/// one-dimensional k-means. Sums depend on the order of add() alone.
class LevelFit {
 public:
  LevelFit();
  void add(float value, double weight = 1.0);

  /// Lloyd's iteration from the sample's quantiles (k + 1/2) / count until nothing changes, at most
  /// 200 times. Ascending; evenly spaced where nothing was added.
  std::vector<float> levels(int count) const;
  /// What the levels' codes have to read for the mean and standard deviation of the sample.
  std::vector<float> normalised_reads(const std::vector<float>& levels) const;

 private:
  /// Calls take(level, mass, sum) for every bin that is not empty, with the level that its mean
  /// gets: the nearest, of two as near the higher.
  template <class Take>
  void assign(const std::vector<double>& levels, const Take& take) const;

  std::vector<double> mass_, sum_;
};

}  // namespace dgap::engine
