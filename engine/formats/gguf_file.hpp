#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.hpp"
#include "engine/formats/gguf_types.hpp"

namespace dgap::engine {

/// A GGUF file (version 2 or 3, little-endian), mapped and checked as a whole: every count, length,
/// offset, type and shape lies inside the file before anything uses it, names occur once, tensors
/// do not overlap. All views point into the mapping and live as long as this object.
///
/// The constructor throws IoError for files that are not GGUF, damaged or truncated, and UsageError
/// for healthy ones that are not supported (version 1, big-endian, other tensor types, split
/// models). Accessors throw IoError for a missing key or one of another type, naming file, key and
/// both types.
class GgufFile {
 public:
  /// `shape[0]` is the length of a row (contiguous), `shape[1]` the number of rows, ...; 1 beyond
  /// the tensor's own dimensions.
  struct Tensor {
    std::string_view name;
    GgufTensorType type = GgufTensorType::f32;
    std::array<std::int64_t, 4> shape{1, 1, 1, 1};
    std::span<const std::byte> data;

    std::int64_t rows() const { return shape[1] * shape[2] * shape[3]; }
    std::int64_t elements() const { return shape[0] * rows(); }
    std::size_t row_bytes() const { return data.size() / static_cast<std::size_t>(rows()); }
  };

  explicit GgufFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

  /// In the order of the file.
  std::span<const std::string_view> keys() const { return keys_; }
  bool has(std::string_view key) const { return values_.contains(key); }
  std::string_view string(std::string_view key) const;
  /// Of any integer type; IoError when it does not fit into 64 signed bits.
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::vector<std::string_view> strings(std::string_view key) const;
  /// Of any integer element type; IoError when an element does not fit into 32 signed bits.
  std::vector<std::int32_t> integers(std::string_view key) const;
  /// Of element type float32.
  std::vector<float> reals(std::string_view key) const;
  /// Value as text, for error messages; arrays as "array of 3 int32".
  std::string describe(std::string_view key) const;

  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;

 private:
  struct Value {
    GgufValueType type = GgufValueType::uint8;
    GgufValueType element = GgufValueType::uint8;  // of arrays
    std::uint64_t count = 1;
    std::span<const std::byte> bytes;  // strings without their length; arrays as in the file
  };
  class Reader;

  const Value& value(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected) const;

  std::string path_;
  base::MappedFile file_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> values_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace dgap::engine
