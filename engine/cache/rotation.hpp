#pragma once
#include <cstdint>
#include <memory>

#include "schemas/scheme/scheme.hpp"

namespace dgap::engine {

/// An orthogonal map of rows [rows, width], in place. Immutable, shared by heads.
class Rotation {
 public:
  virtual ~Rotation() = default;
  virtual void apply(std::int64_t rows, float* x) const = 0;
  virtual void undo(std::int64_t rows, float* x) const = 0;
};

/// The rotation of a valid tensor scheme; null where it does not rotate at this head_dim.
std::shared_ptr<const Rotation> make_rotation(const schemas::TensorScheme& tensor, int head_dim,
                                              std::uint64_t seed);

}  // namespace dgap::engine
