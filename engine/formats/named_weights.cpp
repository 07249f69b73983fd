#include "engine/formats/named_weights.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <unordered_set>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "engine/formats/dequantize.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kRowsPerTask = 64;

DGAP_MULTIVERSION std::int64_t count_not_finite(const float* x, std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i)
    count += (std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  return count;
}

/// Row of the Hugging Face order for a row of the file. Within a head the file interleaves the two
/// halves that RoPE rotates with each other: file row 2 i + p is row p * head_dim / 2 + i.
std::int64_t hugging_face_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  return row - in_head + (in_head % 2) * (head_dim / 2) + in_head / 2;
}

/// Gives whole pages of a mapping back; they are read from the file again when touched.
void release([[maybe_unused]] std::span<const std::byte> bytes) {
#if defined(__linux__)
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + bytes.size()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#endif
}

std::string sha256_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  base::Sha256 hash;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    hash.update(piece);
    release(piece);
  }
  return hash.hex();
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

bool is_vector(WeightRole role) {
  switch (role) {
    case WeightRole::output_norm:
    case WeightRole::attention_norm:
    case WeightRole::ffn_norm:
    case WeightRole::query_bias:
    case WeightRole::key_bias:
    case WeightRole::value_bias:
    case WeightRole::attention_output_bias:
      return true;
    default:
      return false;
  }
}

float* row_buffer(std::int64_t columns) {
  thread_local std::vector<float> buffer;
  if (std::ssize(buffer) < columns) buffer.resize(static_cast<std::size_t>(columns));
  return buffer.data();
}

}  // namespace

NamedWeights::NamedWeights(Contents contents) : contents_(std::move(contents)) {
  std::size_t consumed = 0;
  const auto consume = [&](WeightRole role, int layer) {
    if (weight_shape(parameters(), role).rows == 0) return;
    check_shape(name_of(role, layer), role);
    ++consumed;
  };
  for (const WeightRole role : kModelRoles) consume(role, 0);
  for (int i = 0; i < parameters().layers; ++i)
    for (const WeightRole role : kLayerRoles) consume(role, i);
  if (consumed < contents_.tensors.size()) refuse_others(consumed);
}

std::string NamedWeights::name_of(WeightRole role, int layer) const {
  const std::string name(contents_.naming.names[static_cast<std::size_t>(role)]);
  if (std::ranges::find(kModelRoles, role) != std::end(kModelRoles)) return name;
  return std::string(contents_.naming.layer_prefix) + std::to_string(layer) + "." + name;
}

std::vector<std::int64_t> NamedWeights::shape_of(WeightRole role) const {
  const WeightShape shape = weight_shape(parameters(), role);
  if (is_vector(role)) return {shape.columns};
  if (contents_.naming.columns_first) return {shape.columns, shape.rows};
  return {shape.rows, shape.columns};
}

void NamedWeights::check_shape(const std::string& name, WeightRole role) const {
  const auto found = contents_.tensors.find(name);
  if (found == contents_.tensors.end())
    throw base::IoError(contents_.path + ": the tensor " + in_quotes(name) + " is missing");
  std::vector<std::int64_t> expected = shape_of(role);
  if (found->second.shape == expected) return;
  throw base::IoError(contents_.path + ": the tensor " + in_quotes(name) + " has the shape " +
                      text_of(found->second.shape) + "; the hyper-parameters ask for " +
                      text_of(expected));
}

void NamedWeights::refuse_others(std::size_t consumed) const {
  std::unordered_set<std::string> used;
  for (const WeightRole role : kModelRoles)
    if (weight_shape(parameters(), role).rows > 0) used.insert(name_of(role, 0));
  for (int i = 0; i < parameters().layers; ++i)
    for (const WeightRole role : kLayerRoles)
      if (weight_shape(parameters(), role).rows > 0) used.insert(name_of(role, i));
  std::vector<std::string> others;
  for (const auto& [name, tensor] : contents_.tensors)
    if (!used.contains(std::string(name))) others.push_back(in_quotes(name));
  std::sort(others.begin(), others.end());
  constexpr std::size_t kNamed = 5;
  others.resize(std::min(others.size(), kNamed));
  const std::vector<std::string_view> views(others.begin(), others.end());
  throw base::IoError(contents_.path + ": holds " +
                      std::to_string(contents_.tensors.size() - consumed) + " tensors that a " +
                      parameters().architecture + " model of " +
                      std::to_string(parameters().layers) + " layers does not use, among them " +
                      base::join(views));
}

bool NamedWeights::interleaved(WeightRole role) const {
  return contents_.interleaved && (role == WeightRole::query || role == WeightRole::key ||
                                   role == WeightRole::query_bias || role == WeightRole::key_bias);
}

void NamedWeights::read(WeightRole role, int layer, const WeightRowSink& sink) const {
  const std::string name = name_of(role, layer);
  const StoredTensor& tensor = contents_.tensors.at(name);
  const WeightShape shape = weight_shape(parameters(), role);
  const std::size_t row_bytes = tensor.data.size() / static_cast<std::size_t>(shape.rows);
  const std::int64_t head_dim = parameters().head_dim;
  const bool moved = interleaved(role);
  std::atomic<std::int64_t> not_finite{0};
  const auto read_row = [&](std::int64_t row) {
    float* values = row_buffer(2 * shape.columns);
    dequantize_row(tensor.type, tensor.data.data() + static_cast<std::size_t>(row) * row_bytes,
                   shape.columns, values);
    if (const std::int64_t bad = count_not_finite(values, shape.columns); bad > 0)
      not_finite.fetch_add(bad, std::memory_order_relaxed);
    if (moved && is_vector(role)) {
      float* ordered = values + shape.columns;
      for (std::int64_t i = 0; i < shape.columns; ++i)
        ordered[hugging_face_row(i, head_dim)] = values[i];
      values = ordered;
    }
    sink(moved && !is_vector(role) ? hugging_face_row(row, head_dim) : row, values);
  };
  oneapi::tbb::parallel_for(
      oneapi::tbb::blocked_range<std::int64_t>(0, shape.rows, kRowsPerTask),
      [&](const auto& range) {
        for (std::int64_t row = range.begin(); row < range.end(); ++row) read_row(row);
      },
      oneapi::tbb::simple_partitioner());
  release(tensor.data);
  if (not_finite.load() > 0) {
    throw base::IoError(
        contents_.path + ": the tensor " + in_quotes(name) +
        " holds values that are infinite or not numbers: " + std::to_string(not_finite.load()) +
        " of " + std::to_string(shape.rows * shape.columns));
  }
}

std::map<std::string, int> NamedWeights::stored_types() const {
  std::map<std::string, int> types;
  for (const auto& [name, tensor] : contents_.tensors)
    ++types[std::string(gguf_block(tensor.type).name)];
  return types;
}

std::string NamedWeights::sha256() const {
  std::call_once(hashed_, [this] {
    const std::vector<File>& files = contents_.files;
    std::vector<std::string> hashes(files.size());
    oneapi::tbb::parallel_for(std::size_t{0}, files.size(),
                              [&](std::size_t i) { hashes[i] = sha256_of(files[i].bytes); });
    std::string listing;
    for (std::size_t i = 0; i < files.size(); ++i)
      listing += hashes[i] + "  " + files[i].name + "\n";
    sha256_ = files.size() == 1 ? hashes[0] : base::sha256_hex(listing);
  });
  return sha256_;
}

}  // namespace dgap::engine
