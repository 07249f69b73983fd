#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/network.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::runtime {

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
