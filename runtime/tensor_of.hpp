#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"

namespace dgap::runtime {

/// The tensor `name`. IoError where it is missing or has another shape.
const schemas::Tensor& tensor_of(const schemas::Tensors& tensors, const std::string& name,
                                 const std::vector<std::int64_t>& shape);

/// Extent of the tensor `name`. IoError where it is missing or is not a vector.
std::int64_t extent_of(const schemas::Tensors& tensors, const std::string& name);

}  // namespace dgap::runtime
