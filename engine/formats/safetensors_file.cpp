#include "engine/formats/safetensors_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kMaxHeader = std::uint64_t{8} << 20;  // some 80,000 tensors
constexpr std::size_t kMaxDimensions = 8;
constexpr std::size_t kDepth = 3;  // header, tensor, shape

struct Entry {
  SafetensorsFile::Tensor tensor;
  std::uint64_t begin = 0, end = 0;
};

GgufTensorType type_of(const std::string& dtype, const std::string& where) {
  if (dtype == "F32") return GgufTensorType::f32;
  if (dtype == "F16") return GgufTensorType::f16;
  if (dtype == "BF16") return GgufTensorType::bf16;
  throw base::UsageError(where + " has type " + in_quotes(dtype) +
                         ", not supported; supported are F32, F16 and BF16");
}

std::vector<std::int64_t> integers(schemas::JsonObject& object, std::string_view key,
                                   std::size_t max) {
  const json& array = object.any(key);
  if (!array.is_array() || array.size() > max)
    object.fail(key, "expected an array of at most " + std::to_string(max) + " integers");
  std::vector<std::int64_t> values;
  for (const json& value : array) {
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 48;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargest)
      object.fail(key, "expected integers from 0 to 2^48");
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

/// shape times the size of an element; the largest number where that does not fit.
std::uint64_t byte_count(const StoredTensor& tensor) {
  auto count = static_cast<std::uint64_t>(gguf_block(tensor.type).bytes);
  for (const std::int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count))
      return std::numeric_limits<std::uint64_t>::max();
  return count;
}

Entry read_entry(const std::string& name, const json& value, const std::string& path) {
  const std::string where = path + ": the tensor " + in_quotes(name);
  schemas::JsonObject object(value, path, in_quotes(name));
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.stored.type = type_of(object.text("dtype"), where);
  entry.tensor.stored.shape = integers(object, "shape", kMaxDimensions);
  const std::vector<std::int64_t> offsets = integers(object, "data_offsets", 2);
  object.refuse_others();
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    object.fail("data_offsets", "expected [begin, end] with begin <= end");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const std::uint64_t bytes = byte_count(entry.tensor.stored);
  if (entry.end - entry.begin != bytes)
    object.fail("data_offsets", "span " + std::to_string(entry.end - entry.begin) +
                                    " bytes; type and shape need " + std::to_string(bytes));
  return entry;
}

std::vector<Entry> read_header(std::string_view header, const std::string& path) {
  const json object = schemas::parse_json_object(header, path, kDepth);
  std::vector<Entry> entries;
  for (const auto& [name, value] : object.items()) {
    if (name != "__metadata__") {
      entries.push_back(read_entry(name, value, path));
      continue;
    }
    const auto is_text = [](const json& item) { return item.is_string(); };
    if (!value.is_object() || !std::all_of(value.begin(), value.end(), is_text))
      throw base::IoError(path + ": __metadata__: expected an object of texts");
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  return entries;
}

/// Every byte of the data belongs to one tensor.
void check_extents(const std::vector<Entry>& entries, std::uint64_t head, std::uint64_t file_size,
                   const std::string& path) {
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected)
      throw base::IoError(path + ": the tensor " + in_quotes(entry.tensor.name) +
                          " begins at byte " + std::to_string(entry.begin) +
                          " of the data; expected " + std::to_string(expected) +
                          (entry.begin < expected ? " (it overlaps the tensor before)"
                                                  : " (there is a hole before it)"));
    expected = entry.end;
  }
  if (head + expected > file_size)
    throw base::IoError(path + ": is truncated: needs " + std::to_string(head + expected) +
                        " bytes, has " + std::to_string(file_size));
  if (head + expected < file_size)
    throw base::IoError(path + ": has " + std::to_string(file_size - head - expected) +
                        " bytes after the last tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length)
    throw base::IoError(path + ": is truncated: needs at least 8 bytes, has " +
                        std::to_string(bytes.size()));
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeader)
    throw base::IoError(path + ": is not a safetensors file: it declares a header of " +
                        std::to_string(length) + " bytes; at most " + std::to_string(kMaxHeader) +
                        " are accepted");
  if (length > bytes.size() - sizeof length)
    throw base::IoError(path + ": is truncated: needs at least " +
                        std::to_string(sizeof length + length) + " bytes, has " +
                        std::to_string(bytes.size()));
  const std::uint64_t head = sizeof length + length;
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof length,
                                length);
  if (!header.starts_with('{')) throw base::IoError(path + ": its header does not begin with {");
  std::vector<Entry> entries = read_header(header, path);
  check_extents(entries, head, bytes.size(), path);
  tensors_.reserve(entries.size());
  for (Entry& entry : entries) {
    entry.tensor.stored.data = bytes.subspan(head + entry.begin, entry.end - entry.begin);
    tensors_.push_back(std::move(entry.tensor));
  }
}

}  // namespace dgap::engine
