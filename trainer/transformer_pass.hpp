#pragma once
#include <span>
#include <vector>

#include "trainer/layers.hpp"

namespace dgap::trainer {

/// Forward and reverse pass of a transformer over the candidates of windows
/// (runtime/transformer.hpp), with the buffers they need. The candidates of segment s are columns
/// [s * width, s * width + sizes[s]) of matrices with stride().
template <class Real>
class TransformerPass {
 public:
  /// width: columns of a segment, a multiple of base::kLanes.
  TransformerPass(const NetworkShape& shape, std::int64_t width, int max_segments);

  std::int64_t stride() const { return segments_.stride; }
  /// Standardised inputs, to be filled before forward: [max_segments, shared] and [own, stride].
  Real* shared_inputs() { return shared_inputs_.data(); }
  Real* own_inputs() { return own_inputs_.data(); }

  /// Outputs [segments * width].
  const Real* forward(const Real* parameters, std::span<const std::int32_t> sizes);
  /// Adds the gradient of sum_r upstream[r] y[r] to `gradient`, laid out like the parameters.
  /// `upstream` [segments * width] belongs to the last forward(), 0 beyond the sizes.
  void backward(const Real* parameters, const Real* upstream, Real* gradient);

 private:
  struct Block {
    std::vector<Real> in, between;    // x before attention, and after it [width, stride]
    std::vector<Real> qkv, attended;  // [3 width, stride], [width, stride]
    std::vector<Real> hidden, slope;  // gelu(up(between)), its derivative [hidden, stride]
    std::vector<Real> shares;         // [heads, width of a segment, stride]
  };
  /// Calls f(shape, offset of the head's rows, offset of its shares) for every segment and head.
  template <class F>
  void for_each_head(const F& f) const;

  const NetworkShape* shape_;
  int model_width_, head_width_;
  Segments segments_;
  std::vector<std::int32_t> sizes_;
  std::vector<Real> shared_inputs_, own_inputs_, starts_, sums_;
  std::vector<Block> blocks_;
  std::vector<Real> out_, output_;      // x after the last block; out(x)
  std::vector<Real> up_, down_, wide_;  // gradients
  std::vector<Real> scores_;            // of one head [width of a segment, stride]
};

extern template class TransformerPass<float>;
extern template class TransformerPass<double>;

}  // namespace dgap::trainer
