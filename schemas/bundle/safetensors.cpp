#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/bundle/manifest.hpp"
#include "schemas/bundle/strict_json.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = kMaxSafetensorsStart - 8;
constexpr std::size_t kMaxDimensions = 8;

struct Entry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// Number of elements; IoError where it does not fit.
std::uint64_t element_count(const std::vector<std::int64_t>& shape, const std::string& where) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) ||
        count > (std::uint64_t{1} << 40)) {
      throw base::IoError(where + ": has more elements than any file holds");
    }
  }
  return count;
}

std::vector<std::int64_t> integers(JsonObject& object, std::string_view key, std::size_t max) {
  const json& array = object.any(key);
  if (!array.is_array() || array.size() > max) {
    object.fail(key, "expected an array of at most " + std::to_string(max) + " integers");
  }
  std::vector<std::int64_t> values;
  for (const json& value : array) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > (std::uint64_t{1} << 48)) {
      object.fail(key, "expected integers from 0 to 2^48");
    }
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

Entry read_entry(const json& value, const std::string& file, const std::string& name) {
  JsonObject object(value, file, name);
  object.choice("dtype", {"F32"});
  Entry entry{name, integers(object, "shape", kMaxDimensions)};
  const std::vector<std::int64_t> offsets = integers(object, "data_offsets", 2);
  object.refuse_others();
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    object.fail("data_offsets", "expected [begin, end] with begin <= end");
  }
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const std::uint64_t bytes = element_count(entry.shape, file + ": " + name) * sizeof(float);
  if (entry.end - entry.begin != bytes) {
    object.fail("data_offsets", "span " + std::to_string(entry.end - entry.begin) +
                                    " bytes; the shape needs " + std::to_string(bytes));
  }
  return entry;
}

void check_metadata(const json& metadata, const std::string& file) {
  const bool texts =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                          [](const json& value) { return value.is_string(); });
  if (!texts) throw base::IoError(file + ": __metadata__: expected an object of texts");
}

/// In the order of their bytes, which follow each other without holes and fill `size` bytes.
std::vector<Entry> read_header(std::string_view header, std::uint64_t size,
                               const std::string& file) {
  std::vector<Entry> entries;
  const json object = parse_json_object(header, file, 3, kMaxValues);
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__") {
      check_metadata(value, file);
    } else {
      entries.push_back(read_entry(value, file, name));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      throw base::IoError(file + ": " + entry.name + ": begins at byte " +
                          std::to_string(entry.begin) + " of the data; expected " +
                          std::to_string(expected) + " (tensors follow each other without holes)");
    }
    expected = entry.end;
  }
  if (expected != size) {
    throw base::IoError(file + ": needs " + std::to_string(expected) + " bytes of data, has " +
                        std::to_string(size));
  }
  return entries;
}

struct Header {
  std::vector<Entry> entries;
  std::uint64_t size = 0;  // bytes before the data
};

/// The header of a file of `size` bytes that begins with `start`.
Header read_start(std::string_view start, std::uint64_t size, const std::string& file) {
  std::uint64_t length = 0;
  if (start.size() < sizeof length) {
    throw base::IoError(file + ": has " + std::to_string(start.size()) +
                        " bytes; a safetensors file has at least 8");
  }
  std::memcpy(&length, start.data(), sizeof length);
  start.remove_prefix(sizeof length);
  if (length > kMaxHeader || length > start.size()) {
    throw base::IoError(file + ": declares a header of " + std::to_string(length) +
                        " bytes; the file has " + std::to_string(size - sizeof length) +
                        " after its length, and at most " + std::to_string(kMaxHeader) +
                        " are accepted");
  }
  if (!start.starts_with('{')) throw base::IoError(file + ": its header does not begin with {");
  const std::uint64_t before = sizeof length + length;
  return {read_header(start.substr(0, length), size - before, file), before};
}

}  // namespace

std::string encode_safetensors(const Tensors& tensors) {
  json header = json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t end = offset + tensor.data.size() * sizeof(float);
    if (element_count(tensor.shape, name) != tensor.data.size()) {
      throw base::FailedError("tensor " + name + " has " + std::to_string(tensor.data.size()) +
                              " elements, which is not what its shape says");
    }
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data is aligned to 8 bytes
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length + text.size() + offset, '\0');
  char* to = bytes.data();
  std::memcpy(to, &length, sizeof length);
  std::memcpy(to + sizeof length, text.data(), text.size());
  to += sizeof length + text.size();
  for (const auto& [name, tensor] : tensors) {
    const std::size_t size = tensor.data.size() * sizeof(float);
    if (size != 0) std::memcpy(to, tensor.data.data(), size);
    to += size;
  }
  return bytes;
}

Tensors decode_safetensors(std::string_view bytes, std::string_view file_name) {
  const Header header = read_start(bytes, bytes.size(), std::string(file_name));
  Tensors tensors;
  for (const Entry& entry : header.entries) {
    Tensor tensor{entry.shape, std::vector<float>((entry.end - entry.begin) / sizeof(float))};
    if (!tensor.data.empty()) {
      std::memcpy(tensor.data.data(), bytes.data() + header.size + entry.begin,
                  entry.end - entry.begin);
    }
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

Tensors decode_safetensors_shapes(std::string_view start, std::uint64_t size,
                                  std::string_view file_name) {
  Tensors tensors;
  for (const Entry& entry : read_start(start, size, std::string(file_name)).entries) {
    tensors.emplace(entry.name, Tensor{entry.shape, {}});
  }
  return tensors;
}

}  // namespace dgap::schemas
