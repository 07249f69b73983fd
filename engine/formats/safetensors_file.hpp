#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "engine/formats/named_weights.hpp"

namespace dgap::engine {

/// A safetensors file, mapped and checked as a whole: the header lies inside the file, is one JSON
/// object without duplicate keys, every tensor's type is F32, F16 or BF16, its bytes are what type
/// and shape ask for, and tensors follow each other without overlap or holes up to the last byte.
/// All views point into the mapping and live as long as this object.
///
/// The constructor throws IoError for what is damaged or truncated, and UsageError for tensors of
/// other types.
class SafetensorsFile {
 public:
  struct Tensor {
    std::string name;
    StoredTensor stored;
  };

  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// In the order of their bytes.
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::string path_;
  base::MappedFile file_;
  std::vector<Tensor> tensors_;
};

}  // namespace dgap::engine
