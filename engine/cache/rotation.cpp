#include "engine/cache/rotation.hpp"

#include <tuple>
#include <vector>

#include "base/random.hpp"
#include "engine/cache/built_once.hpp"
#include "engine/cache/hadamard.hpp"
#include "engine/cache/orthogonal.hpp"

namespace dgap::engine {
namespace {

using schemas::RotationKind;

/// One matrix a block of channels: outliers and the others are instances of their own.
class HaarRotation final : public Rotation {
 public:
  HaarRotation(std::vector<DenseMatrix> blocks, int width)
      : blocks_(std::move(blocks)), width_(width) {}
  void apply(std::int64_t rows, float* x) const override {
    for_blocks(rows, x, [](const DenseMatrix& m, float* y) { m.apply(y); });
  }
  void undo(std::int64_t rows, float* x) const override {
    for_blocks(rows, x, [](const DenseMatrix& m, float* y) { m.apply_transposed(y); });
  }

 private:
  void for_blocks(std::int64_t rows, float* x, auto&& map) const {
    for (std::int64_t r = 0; r < rows; ++r, x += width_) {
      float* block = x;
      for (const DenseMatrix& matrix : blocks_) {
        map(matrix, block);
        block += matrix.width();
      }
    }
  }

  std::vector<DenseMatrix> blocks_;
  int width_;
};

std::shared_ptr<const Rotation> make_haar(int outliers, int others, std::uint64_t seed) {
  std::vector<DenseMatrix> blocks;
  base::Random random(seed, "rotation haar");
  if (outliers > 0) blocks.push_back(haar_matrix(outliers, random));
  blocks.push_back(haar_matrix(others, random));
  return std::make_shared<HaarRotation>(std::move(blocks), outliers + others);
}

}  // namespace

std::shared_ptr<const Rotation> make_rotation(const schemas::TensorScheme& tensor, int head_dim,
                                              std::uint64_t seed) {
  if (!tensor.rotate) return nullptr;
  switch (tensor.rotation) {
    case RotationKind::signed_hadamard:
      return std::make_shared<HadamardRotation>(head_dim, seed);
    case RotationKind::hadamard:
      return std::make_shared<HadamardRotation>(HadamardRotation::Blocks{head_dim, head_dim});
    case RotationKind::hadamard_blocks:
    case RotationKind::hadamard_64: {
      if (head_dim % 64 != 0) return nullptr;
      const int largest = head_dim & -head_dim;
      const int block = tensor.rotation == RotationKind::hadamard_64 ? 64 : largest;
      return std::make_shared<HadamardRotation>(HadamardRotation::Blocks{head_dim, block});
    }
    case RotationKind::haar: {
      static BuiltOnce<std::tuple<int, int, std::uint64_t>, Rotation> made;
      const int outliers = schemas::outlier_channels(tensor, head_dim);
      return made.get({outliers, head_dim, seed},
                      [&] { return make_haar(outliers, head_dim - outliers, seed); });
    }
  }
  return nullptr;
}

}  // namespace dgap::engine
