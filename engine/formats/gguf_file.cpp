#include "engine/formats/gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

constexpr std::string_view kMagic = "GGUF";
constexpr std::size_t kSmallestValue = 8 + 4 + 1;  // empty key, type, one byte
constexpr std::size_t kSmallestTensor =
    8 + 4 + 8 + 4 + 8;  // empty name, one dimension, type, offset
constexpr std::uint64_t kDefaultAlignment = 32;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool is_integer(GgufValueType type) {
  switch (type) {
    case GgufValueType::uint8:
    case GgufValueType::int8:
    case GgufValueType::uint16:
    case GgufValueType::int16:
    case GgufValueType::uint32:
    case GgufValueType::int32:
    case GgufValueType::uint64:
    case GgufValueType::int64:
      return true;
    default:
      return false;
  }
}

/// `type` is an integer type. uint64 values above the signed range come out negative.
std::int64_t load_integer(GgufValueType type, const std::byte* from) {
  switch (type) {
    case GgufValueType::uint8:
      return load<std::uint8_t>(from);
    case GgufValueType::int8:
      return load<std::int8_t>(from);
    case GgufValueType::uint16:
      return load<std::uint16_t>(from);
    case GgufValueType::int16:
      return load<std::int16_t>(from);
    case GgufValueType::uint32:
      return load<std::uint32_t>(from);
    case GgufValueType::int32:
      return load<std::int32_t>(from);
    default:
      return load<std::int64_t>(from);
  }
}

bool fits_int64(GgufValueType type, const std::byte* from) {
  return type != GgufValueType::uint64 || load<std::int64_t>(from) >= 0;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

/// Walks over the file once, front to back, and fills the object's tables.
class GgufFile::Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file), bytes_(file.bytes()) {}

  void read() {
    read_header();
    for (std::uint64_t i = 0; i < values_; ++i) read_value();
    refuse_split_model();
    offsets_.reserve(tensors_);
    file_.tensors_.reserve(tensors_);
    for (std::uint64_t i = 0; i < tensors_; ++i) read_tensor();
    place_tensors();
    refuse_overlap();
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(file_.path_ + ": " + what);
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw base::UsageError(file_.path_ + ": " + what);
  }
  [[noreturn]] void truncated(std::uint64_t needed, const std::string& what) const {
    damaged("is truncated or damaged: needs " + std::to_string(needed) + " bytes, has " +
            std::to_string(bytes_.size()) + " (" + what + ")");
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

  /// The next `n` bytes, n <= 2^64 - 1.
  std::span<const std::byte> take(std::uint64_t n, const char* what) {
    if (n > left()) {
      const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
      truncated(n > most - at_ ? most : at_ + n,
                std::string(what) + " at byte " + std::to_string(at_));
    }
    const auto taken = bytes_.subspan(at_, n);
    at_ += n;
    return taken;
  }

  template <class T>
  T take(const char* what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::string_view take_string(const char* what) {
    const auto length = take<std::uint64_t>(what);
    return text_of(take(length, what));
  }

  void read_header() {
    const std::string_view head = text_of(bytes_).substr(0, kMagic.size());
    if (head != kMagic.substr(0, head.size()) || head.empty()) damaged("is not a GGUF file");
    at_ = take(kMagic.size(), "magic number").size();
    const auto version = take<std::uint32_t>("version");
    if ((version & 0xffffu) == 0 && version != 0) {
      unsupported(
          "is a big-endian file, not supported; convert the model for little-endian machines");
    }
    if (version == 1)
      unsupported("is GGUF version 1, not supported; convert the model again (version 3)");
    if (version < 2 || version > 3) {
      unsupported("is GGUF version " + std::to_string(version) +
                  "; versions 2 and 3 are supported");
    }
    tensors_ = take<std::uint64_t>("tensor count");
    values_ = take<std::uint64_t>("metadata count");
    check_count(values_, kSmallestValue, "metadata values");
    check_count(tensors_, kSmallestTensor, "tensors");
  }

  void check_count(std::uint64_t count, std::size_t smallest, const std::string& what) const {
    if (count <= left() / smallest) return;
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t needed = count > (most - at_) / smallest ? most : at_ + count * smallest;
    truncated(needed, "at least, for " + std::to_string(count) + " " + what);
  }

  void read_value() {
    const std::string_view key = take_string("metadata key");
    Value value;
    value.type = GgufValueType{take<std::uint32_t>("metadata type")};
    if (value.type == GgufValueType::string) {
      const auto length = take<std::uint64_t>("string length");
      value.bytes = take(length, "string");
    } else if (value.type == GgufValueType::array) {
      read_array(key, value);
    } else {
      value.bytes = take(checked_size(key, value.type), "metadata value");
    }
    if (value.type == GgufValueType::boolean && load<std::uint8_t>(value.bytes.data()) > 1) {
      damaged("boolean " + in_quotes(key) + " is neither 0 nor 1");
    }
    if (!file_.values_.emplace(key, value).second)
      damaged("key " + in_quotes(key) + " occurs twice");
    file_.keys_.push_back(key);
  }

  std::size_t checked_size(std::string_view key, GgufValueType type) const {
    const std::size_t size = gguf_value_size(type);
    if (size == 0) {
      damaged("key " + in_quotes(key) + " has value type " +
              std::to_string(static_cast<std::uint32_t>(type)) + " (" +
              std::string(gguf_value_type_name(type)) + "), which is not possible here");
    }
    return size;
  }

  void read_array(std::string_view key, Value& value) {
    value.element = GgufValueType{take<std::uint32_t>("array element type")};
    value.count = take<std::uint64_t>("array length");
    const bool strings = value.element == GgufValueType::string;
    const std::size_t size = strings ? sizeof(std::uint64_t) : checked_size(key, value.element);
    check_count(value.count, size, "elements of " + in_quotes(key));
    const std::uint64_t begin = at_;
    if (strings) {
      for (std::uint64_t i = 0; i < value.count; ++i) take_string("string of an array");
    } else {
      take(value.count * size, "array");
    }
    value.bytes = bytes_.subspan(begin, at_ - begin);
  }

  void refuse_split_model() const {
    if (!file_.has("split.count") || file_.integer("split.count") <= 1) return;
    unsupported("is one of " + file_.describe("split.count") +
                " parts of a split model, not supported; merge the parts into one file");
  }

  void read_tensor() {
    Tensor tensor;
    tensor.name = take_string("tensor name");
    const auto dimensions = take<std::uint32_t>("number of dimensions");
    if (dimensions < 1 || dimensions > tensor.shape.size()) {
      damaged("tensor " + in_quotes(tensor.name) + " has " + std::to_string(dimensions) +
              " dimensions; 1 to 4 are possible");
    }
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto size = take<std::uint64_t>("dimension");
      const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (size == 0 || size > most / elements) {
        damaged("tensor " + in_quotes(tensor.name) + " has a dimension of " + std::to_string(size) +
                (size == 0 ? "" : ", too large"));
      }
      tensor.shape[i] = static_cast<std::int64_t>(size);
      elements *= size;
    }
    const auto type = take<std::uint32_t>("tensor type");
    const GgufBlock* block = find_gguf_block(type);
    if (block == nullptr) {
      unsupported("tensor " + in_quotes(tensor.name) + " has type " + gguf_type_name(type) +
                  ", not supported; supported are " + supported_gguf_types());
    }
    if (tensor.shape[0] % block->elements != 0) {
      damaged("tensor " + in_quotes(tensor.name) + " has rows of " +
              std::to_string(tensor.shape[0]) + " elements, not a multiple of the " +
              std::to_string(block->elements) + " of type " + std::string(block->name));
    }
    tensor.type = GgufTensorType{type};
    offsets_.push_back(take<std::uint64_t>("tensor offset"));
    if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
      damaged("tensor " + in_quotes(tensor.name) + " occurs twice");
    }
    file_.tensors_.push_back(tensor);
  }

  std::uint64_t alignment() const {
    if (!file_.has("general.alignment")) return kDefaultAlignment;
    const std::int64_t value = file_.integer("general.alignment");
    if (value < 1 || value > (std::int64_t{1} << 30) || (value & (value - 1)) != 0) {
      damaged("general.alignment is " + std::to_string(value) + "; a power of two is expected");
    }
    return static_cast<std::uint64_t>(value);
  }

  /// Gives every tensor its bytes: its offset counts from the end of the directory, aligned.
  void place_tensors() {
    const std::uint64_t align = alignment();
    const std::uint64_t begin = (at_ + align - 1) / align * align;
    std::uint64_t end = 0;  // of the last tensor, as far as it can be told in 64 bits
    const Tensor* last = nullptr;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const Tensor& tensor = file_.tensors_[i];
      if (offsets_[i] % align != 0) {
        damaged("tensor " + in_quotes(tensor.name) + " begins at offset " +
                std::to_string(offsets_[i]) + ", not a multiple of the alignment " +
                std::to_string(align));
      }
      const std::uint64_t tensor_end = end_of(tensor, begin, offsets_[i]);
      if (tensor_end >= end) end = tensor_end, last = &tensor;
    }
    if (last != nullptr && end > bytes_.size()) truncated(end, "tensor " + in_quotes(last->name));
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      Tensor& tensor = file_.tensors_[i];
      tensor.data = bytes_.subspan(begin + offsets_[i], byte_count(tensor));
    }
  }

  static std::uint64_t byte_count(const Tensor& tensor) {
    const GgufBlock& block = gguf_block(tensor.type);
    const auto blocks = static_cast<std::uint64_t>(tensor.elements() / block.elements);
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const auto size = static_cast<std::uint64_t>(block.bytes);
    return blocks > most / size ? most : blocks * size;
  }

  static std::uint64_t end_of(const Tensor& tensor, std::uint64_t begin, std::uint64_t offset) {
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t size = byte_count(tensor);
    if (offset > most - begin || size > most - begin - offset) return most;
    return begin + offset + size;
  }

  void refuse_overlap() const {
    std::vector<const Tensor*> order;
    order.reserve(file_.tensors_.size());
    for (const Tensor& tensor : file_.tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const Tensor* a, const Tensor* b) { return a->data.data() < b->data.data(); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->data.data() + order[i - 1]->data.size() > order[i]->data.data()) {
        damaged("tensors " + in_quotes(order[i - 1]->name) + " and " + in_quotes(order[i]->name) +
                " overlap");
      }
    }
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t tensors_ = 0, values_ = 0;
  std::vector<std::uint64_t> offsets_;
};

GgufFile::GgufFile(const std::string& path) : path_(path), file_(path) { Reader(*this).read(); }

const GgufFile::Value& GgufFile::value(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    throw base::IoError(path_ + ": the key " + in_quotes(key) + " is missing");
  }
  return found->second;
}

void GgufFile::wrong_type(std::string_view key, std::string_view expected) const {
  throw base::IoError(path_ + ": the key " + in_quotes(key) + " is " + describe(key) +
                      "; expected is " + std::string(expected));
}

std::string_view GgufFile::string(std::string_view key) const {
  const Value& found = value(key);
  if (found.type != GgufValueType::string) wrong_type(key, "a string");
  return text_of(found.bytes);
}

std::int64_t GgufFile::integer(std::string_view key) const {
  const Value& found = value(key);
  if (!is_integer(found.type) || !fits_int64(found.type, found.bytes.data())) {
    wrong_type(key, "an integer of at most 63 bits");
  }
  return load_integer(found.type, found.bytes.data());
}

double GgufFile::real(std::string_view key) const {
  const Value& found = value(key);
  if (found.type == GgufValueType::float32) return load<float>(found.bytes.data());
  if (found.type == GgufValueType::float64) return load<double>(found.bytes.data());
  wrong_type(key, "a real number");
}

bool GgufFile::boolean(std::string_view key) const {
  const Value& found = value(key);
  if (found.type != GgufValueType::boolean) wrong_type(key, "a boolean");
  return load<std::uint8_t>(found.bytes.data()) != 0;
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  const Value& found = value(key);
  if (found.type != GgufValueType::array || found.element != GgufValueType::string) {
    wrong_type(key, "an array of strings");
  }
  std::vector<std::string_view> out;
  out.reserve(found.count);
  const std::byte* at = found.bytes.data();
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const auto length = load<std::uint64_t>(at);
    at += sizeof length;
    out.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  return out;
}

std::vector<std::int32_t> GgufFile::integers(std::string_view key) const {
  const Value& found = value(key);
  if (found.type != GgufValueType::array || !is_integer(found.element)) {
    wrong_type(key, "an array of integers");
  }
  std::vector<std::int32_t> out;
  out.reserve(found.count);
  const std::size_t size = gguf_value_size(found.element);
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const std::byte* at = found.bytes.data() + i * size;
    const std::int64_t element = load_integer(found.element, at);
    if (!fits_int64(found.element, at) || element != static_cast<std::int32_t>(element)) {
      throw base::IoError(path_ + ": element " + std::to_string(i) + " of " + in_quotes(key) +
                          " does not fit into 32 bits");
    }
    out.push_back(static_cast<std::int32_t>(element));
  }
  return out;
}

std::vector<float> GgufFile::reals(std::string_view key) const {
  const Value& found = value(key);
  if (found.type != GgufValueType::array || found.element != GgufValueType::float32) {
    wrong_type(key, "an array of float32");
  }
  std::vector<float> out(found.count);
  for (std::uint64_t i = 0; i < found.count; ++i) {
    out[i] = load<float>(found.bytes.data() + i * sizeof(float));
  }
  return out;
}

std::string GgufFile::describe(std::string_view key) const {
  const Value& found = value(key);
  const std::byte* at = found.bytes.data();
  switch (found.type) {
    case GgufValueType::string:
      return in_quotes(text_of(found.bytes));
    case GgufValueType::boolean:
      return load<std::uint8_t>(at) != 0 ? "true" : "false";
    case GgufValueType::float32:
      return base::number(load<float>(at));
    case GgufValueType::float64:
      return base::number(load<double>(at));
    case GgufValueType::uint64:
      return std::to_string(load<std::uint64_t>(at));
    case GgufValueType::array:
      return "array of " + std::to_string(found.count) + " " +
             std::string(gguf_value_type_name(found.element));
    default:
      return std::to_string(load_integer(found.type, at));
  }
}

const GgufFile::Tensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace dgap::engine
