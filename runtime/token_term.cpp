#include "runtime/token_term.hpp"

#include "base/error.hpp"
#include "runtime/tensor_of.hpp"

namespace dgap::runtime {
namespace {

const schemas::Tensor& vectors_of(const schemas::Tensors& tensors, const std::string& name,
                                  int rank) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.shape.size() != 2) {
    throw base::IoError("tensor " + name + " is missing or is not a matrix");
  }
  return tensor_of(tensors, name, {found->second.shape[0], rank});
}

}  // namespace

TokenTerm::TokenTerm(const schemas::Tensors& tensors, const std::string& prefix, int rank)
    : rank_(rank),
      query_(tensors, prefix + ".query", 1,
             static_cast<int>(extent_of(tensors, prefix + ".query.mean")), rank) {
  const schemas::Tensor& vectors = vectors_of(tensors, prefix + ".tokens", rank);
  vocabulary_ = vectors.shape[0];
  vectors_ = vectors.data;
}

std::size_t TokenTerm::scratch_floats() const {
  return static_cast<std::size_t>(rank_) + query_.scratch_floats();
}

void TokenTerm::add(std::span<const float> shared, const float* own,
                    std::span<const std::int32_t> ids, float* delta, float* scratch) const {
  float* const query = scratch;
  query_.forward(shared, own, 1, query, scratch + rank_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary_) continue;
    const float* const vector = vectors_.data() + std::int64_t{ids[i]} * rank_;
    float sum = 0.0f;
    for (int r = 0; r < rank_; ++r) sum += vector[r] * query[r];
    delta[i] += sum;
  }
}

}  // namespace dgap::runtime
