#include "engine/formats/gguf_weights.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <unordered_set>

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "engine/formats/dequantize.hpp"
#include "engine/formats/gguf_parameters.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kRowsPerTask = 64;

DGAP_MULTIVERSION bool all_finite(const float* x, std::int64_t n) {
  std::uint32_t largest = 0;  // exponent bits, all ones for infinities and NaN
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u);
  }
  return largest != 0x7f800000u;
}

/// Row of the Hugging Face order for a row of the file. Within a head the file interleaves the two
/// halves that RoPE rotates with each other: file row 2 i + p is row p * head_dim / 2 + i.
std::int64_t hugging_face_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  return row - in_head + (in_head % 2) * (head_dim / 2) + in_head / 2;
}

std::string shape_text(const GgufFile::Tensor& tensor) {
  std::string text = "[" + std::to_string(tensor.shape[0]);
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] > 1 || i == 1) text += ", " + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

}  // namespace

GgufWeights::GgufWeights(const std::string& path)
    : file_(path), parameters_(read_llama_parameters(file_)) {
  check_directory();
}

std::vector<GgufWeights::Expected> GgufWeights::model_tensors() const {
  const HyperParameters& p = parameters_;
  std::vector<Expected> list{{"token_embd.weight", p.vocab_size, p.hidden_size},
                             {"output_norm.weight", 1, p.hidden_size}};
  if (!p.tied_embeddings) list.push_back({"output.weight", p.vocab_size, p.hidden_size});
  return list;
}

/// In the order of the members of LayerWeights.
std::vector<GgufWeights::Expected> GgufWeights::layer_tensors(int index) const {
  const HyperParameters& p = parameters_;
  const std::int64_t q = std::int64_t{p.heads} * p.head_dim;
  const std::int64_t kv = std::int64_t{p.kv_heads} * p.head_dim;
  const std::string prefix = "blk." + std::to_string(index) + ".";
  return {{prefix + "attn_norm.weight", 1, p.hidden_size},
          {prefix + "ffn_norm.weight", 1, p.hidden_size},
          {prefix + "attn_q.weight", q, p.hidden_size, p.heads},
          {prefix + "attn_k.weight", kv, p.hidden_size, p.kv_heads},
          {prefix + "attn_v.weight", kv, p.hidden_size},
          {prefix + "attn_output.weight", p.hidden_size, q},
          {prefix + "ffn_gate.weight", p.intermediate_size, p.hidden_size},
          {prefix + "ffn_up.weight", p.intermediate_size, p.hidden_size},
          {prefix + "ffn_down.weight", p.hidden_size, p.intermediate_size}};
}

void GgufWeights::check_directory() const {
  for (const GgufFile::Tensor& tensor : file_.tensors()) refuse_known_extras(tensor.name);
  std::unordered_set<std::string_view> consumed;
  const auto consume = [&](const Expected& expected) {
    check_shape(expected);
    consumed.insert(file_.find_tensor(expected.name)->name);
  };
  for (const Expected& expected : model_tensors()) consume(expected);
  for (int i = 0; i < parameters_.layers; ++i) {
    for (const Expected& expected : layer_tensors(i)) consume(expected);
  }
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> names;
  for (const GgufFile::Tensor& tensor : file_.tensors()) {
    if (!consumed.contains(tensor.name) && names.size() < kNamed)
      names.push_back(in_quotes(tensor.name));
  }
  if (names.empty()) return;
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw base::IoError(file_.path() + ": holds " +
                      std::to_string(file_.tensors().size() - consumed.size()) +
                      " tensors that a llama model of " + std::to_string(parameters_.layers) +
                      " layers does not use, among them " + base::join(views));
}

void GgufWeights::check_shape(const Expected& expected) const {
  const GgufFile::Tensor* tensor = file_.find_tensor(expected.name);
  if (tensor == nullptr) {
    throw base::IoError(file_.path() + ": the tensor " + in_quotes(expected.name) + " is missing");
  }
  if (tensor->shape[0] == expected.columns && tensor->shape[1] == expected.rows &&
      tensor->rows() == expected.rows) {
    return;
  }
  throw base::IoError(file_.path() + ": the tensor " + in_quotes(expected.name) +
                      " has the shape " + shape_text(*tensor) + "; the hyper-parameters ask for [" +
                      std::to_string(expected.columns) + ", " + std::to_string(expected.rows) +
                      "]");
}

void GgufWeights::refuse_known_extras(std::string_view name) const {
  std::string what;
  if (name.starts_with("rope_freqs") || name.starts_with("rope_factors")) {
    what = "per-channel RoPE frequencies (Llama 3.1 and later)";
  } else if (name.starts_with("blk.") && name.ends_with(".bias")) {
    what = "biases in layers";
  } else if (name.starts_with("blk.") && name.find("_exps.") != std::string_view::npos) {
    what = "mixtures of experts";
  } else {
    return;
  }
  throw base::UsageError(file_.path() + ": holds the tensor " + in_quotes(name) + "; " + what +
                         " are not supported in this version");
}

std::vector<float> GgufWeights::read(const Expected& expected) const {
  const GgufFile::Tensor& tensor = *file_.find_tensor(expected.name);
  const std::int64_t columns = expected.columns;
  const std::int64_t head_dim = parameters_.head_dim;
  std::vector<float> out(static_cast<std::size_t>(expected.rows * columns));
  std::atomic<bool> finite{true};
  const auto read_rows = [&](const oneapi::tbb::blocked_range<std::int64_t>& range) {
    for (std::int64_t row = range.begin(); row < range.end(); ++row) {
      float* to =
          out.data() + (expected.heads > 0 ? hugging_face_row(row, head_dim) : row) * columns;
      const std::size_t offset = static_cast<std::size_t>(row) * tensor.row_bytes();
      dequantize_row(tensor.type, tensor.data.data() + offset, columns, to);
      if (!all_finite(to, columns)) finite.store(false, std::memory_order_relaxed);
    }
  };
  oneapi::tbb::parallel_for(
      oneapi::tbb::blocked_range<std::int64_t>(0, expected.rows, kRowsPerTask), read_rows,
      oneapi::tbb::simple_partitioner());
  if (!finite.load()) {
    throw base::IoError(file_.path() + ": the tensor " + in_quotes(expected.name) +
                        " holds values that are infinite or not numbers");
  }
  return out;
}

std::vector<float> GgufWeights::embedding() const { return read(model_tensors()[0]); }

std::vector<float> GgufWeights::output_norm() const { return read(model_tensors()[1]); }

std::vector<float> GgufWeights::output_matrix() const {
  if (parameters_.tied_embeddings) {
    throw base::FailedError(file_.path() + ": has no output matrix of its own (tied embeddings)");
  }
  return read(model_tensors()[2]);
}

LayerWeights GgufWeights::layer(int index) const {
  const std::vector<Expected> tensors = layer_tensors(index);
  LayerWeights weights;
  std::vector<float>* const members[] = {
      &weights.attention_norm, &weights.ffn_norm, &weights.query, &weights.key, &weights.value,
      &weights.output,         &weights.gate,     &weights.up,    &weights.down};
  for (std::size_t i = 0; i < tensors.size(); ++i) *members[i] = read(tensors[i]);
  return weights;
}

std::string GgufWeights::sha256() const {
  std::call_once(hashed_, [this] { sha256_ = base::sha256_hex(file_.bytes()); });
  return sha256_;
}

}  // namespace dgap::engine
