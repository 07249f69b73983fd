#include "runtime/tensor_of.hpp"

#include "base/error.hpp"

namespace dgap::runtime {

const schemas::Tensor& tensor_of(const schemas::Tensors& tensors, const std::string& name,
                                 const std::vector<std::int64_t>& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw base::IoError("tensor " + name + " is missing");
  if (found->second.shape != shape) {
    const auto text = [](const std::vector<std::int64_t>& dims) {
      std::string out = "[";
      for (const std::int64_t d : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
      return out + "]";
    };
    throw base::IoError("tensor " + name + " has shape " + text(found->second.shape) +
                        "; expected " + text(shape));
  }
  return found->second;
}

std::int64_t extent_of(const schemas::Tensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.shape.size() != 1) {
    throw base::IoError("tensor " + name + " is missing or is not a vector");
  }
  return found->second.shape[0];
}

}  // namespace dgap::runtime
