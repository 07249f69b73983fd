#pragma once
#include <cstdint>

/// The loops of self-attention among the candidates of a window, forward (the bits of
/// runtime::Transformer) and reverse. q, k, v, out and their gradients: [width, columns], rows
/// `stride` apart; the number of columns is a multiple of base::kLanes.
namespace dgap::trainer {

struct HeadShape {
  int width = 0;  // of the head
  int count = 0;  // candidates, the first of `columns`
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // also of shares [candidates j, candidates i]
};

void attend(HeadShape shape, const float* q, const float* k, const float* v, float* shares,
            float* out);
void attend(HeadShape shape, const double* q, const double* k, const double* v, double* shares,
            double* out);

/// Sets dq, dk and dv, 0 beyond `count`, from the gradient `up` of out, which is 0 there too;
/// `scores` is scratch like shares.
void attend_backward(HeadShape shape, const float* q, const float* k, const float* v,
                     const float* shares, const float* up, float* scores, float* dq, float* dk,
                     float* dv);
void attend_backward(HeadShape shape, const double* q, const double* k, const double* v,
                     const double* shares, const double* up, double* scores, double* dq, double* dk,
                     double* dv);

}  // namespace dgap::trainer
