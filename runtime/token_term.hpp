#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fused.hpp"
#include "base/multiversion.hpp"
#include "runtime/network.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::runtime {

/// delta[i] += vectors[ids[i]] . query; ids beyond the vocabulary have no vector.
template <class Real>
DGAP_INLINE void add_token_products(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                                    int rank, const Real* vectors, const Real* query, Real* delta) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary) continue;
    const Real* const vector = vectors + std::int64_t{ids[i]} * rank;
    Real sum = 0;
    for (int r = 0; r < rank; ++r) sum = base::multiply_add(vector[r], query[r], sum);
    delta[i] += sum;
  }
}

/// The part of a candidate's change that depends on which token it is: e_v . u, with a learned
/// vector e_v of every vocabulary entry and a query u = b + W x of the step, x being (shared, own).
class TokenTerm {
 public:
  /// Vectors <prefix>.tokens [vocabulary, rank], query network <prefix>.query of one layer. IoError
  /// where shapes do not fit.
  TokenTerm(const schemas::Tensors& tensors, const std::string& prefix, int rank);

  int inputs() const { return query_.inputs(); }
  std::size_t scratch_floats() const;
  /// delta[i] += e_ids[i] . u; ids beyond the vocabulary have no vector. `own` holds the inputs
  /// that `shared` lacks.
  void add(std::span<const float> shared, const float* own, std::span<const std::int32_t> ids,
           float* delta, float* scratch) const;

 private:
  int rank_;
  std::int64_t vocabulary_;
  Network query_;
  std::vector<float> vectors_;  // [vocabulary, rank]
};

}  // namespace dgap::runtime
