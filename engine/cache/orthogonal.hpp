#pragma once
#include <vector>

#include "base/random.hpp"

namespace dgap::engine {

/// A square matrix that maps single vectors, at most kMaxHeadDim wide. Sums run over the input's
/// entries in their order, f32.
class DenseMatrix {
 public:
  /// rows: [width, width], row-major.
  DenseMatrix(int width, std::vector<float> rows);
  int width() const { return width_; }
  const std::vector<float>& rows() const { return rows_; }
  /// x -> M x, in place.
  void apply(float* x) const;
  /// x -> M^T x, in place.
  void apply_transposed(float* x) const;

 private:
  int width_;
  std::vector<float> rows_, columns_;
};

/// Independent standard normal entries, drawn row by row.
DenseMatrix gaussian_matrix(int width, base::Random& random);
/// Uniform over the orthogonal matrices: the Q of a Gaussian matrix's QR with a positive diagonal
/// of R, arXiv:math-ph/0609050.
DenseMatrix haar_matrix(int width, base::Random& random);

}  // namespace dgap::engine
