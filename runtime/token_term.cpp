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

DGAP_MULTIVERSION void add_products(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                                    int rank, const float* vectors, const float* query,
                                    float* delta) {
  add_token_products(ids, vocabulary, rank, vectors, query, delta);
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
  add_products(ids, vocabulary_, rank_, vectors_.data(), query, delta);
}

}  // namespace dgap::runtime
