#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/model/rope_parameters.hpp"

/// What a model file gives, whatever its format: hyper-parameters and tensors by role. Readers
/// (engine/formats) fill it; decoders consume it.
namespace dgap::engine {

struct HyperParameters {
  std::string name, architecture, license;  // architecture: "llama", "mistral" or "qwen2"
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, context_length = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  RopeParameters rope;
  double rms_epsilon = 1e-5;
  bool tied_embeddings = false;
  bool attention_bias = false;  // of queries, keys and values
  bool output_bias = false;     // of the attention's output
  /// Tokens that a row of a windowed layer sees, its own included; 0: no layer is windowed.
  std::int64_t sliding_window = 0;
  std::vector<bool> windowed;  // [layers]; empty: all of them, where there is a window
  /// What the reader had to decide by itself, for the user to know: values that the file lacks,
  /// files that were not read.
  std::vector<std::string> notes;

  /// The window of a layer; 0: rows see all tokens before them.
  std::int64_t window(int layer) const {
    return windowed.empty() || windowed[static_cast<std::size_t>(layer)] ? sliding_window : 0;
  }
};

/// The tensors of a model. Matrices are row-major [out, in], rows of q and k (and their biases) in
/// the Hugging Face order (RoPE rotates channel i with channel i + head_dim / 2), whatever the
/// file's order is. Norms and biases are matrices of one row.
enum class WeightRole {
  embedding,      // [vocab, hidden]
  output_norm,    // [hidden]
  output_matrix,  // [vocab, hidden]; only when not tied
  // Of a layer:
  attention_norm,
  ffn_norm,
  query,
  key,
  value,
  output,
  gate,
  up,
  down,
  query_bias,  // these three only with attention_bias
  key_bias,
  value_bias,
  attention_output_bias,  // only with output_bias
};

inline constexpr WeightRole kModelRoles[] = {WeightRole::embedding, WeightRole::output_norm,
                                             WeightRole::output_matrix};
inline constexpr WeightRole kLayerRoles[] = {WeightRole::attention_norm,
                                             WeightRole::ffn_norm,
                                             WeightRole::query,
                                             WeightRole::key,
                                             WeightRole::value,
                                             WeightRole::output,
                                             WeightRole::gate,
                                             WeightRole::up,
                                             WeightRole::down,
                                             WeightRole::query_bias,
                                             WeightRole::key_bias,
                                             WeightRole::value_bias,
                                             WeightRole::attention_output_bias};

struct WeightShape {
  std::int64_t rows = 0, columns = 0;  // 0 rows: a model with these hyper-parameters has none
};

inline WeightShape weight_shape(const HyperParameters& p, WeightRole role) {
  const std::int64_t q = std::int64_t{p.heads} * p.head_dim;
  const std::int64_t kv = std::int64_t{p.kv_heads} * p.head_dim;
  const auto only_if = [](bool present) { return present ? std::int64_t{1} : std::int64_t{0}; };
  switch (role) {
    case WeightRole::embedding:
      return {p.vocab_size, p.hidden_size};
    case WeightRole::output_matrix:
      return {p.tied_embeddings ? 0 : p.vocab_size, p.hidden_size};
    case WeightRole::output_norm:
    case WeightRole::attention_norm:
    case WeightRole::ffn_norm:
      return {1, p.hidden_size};
    case WeightRole::query:
      return {q, p.hidden_size};
    case WeightRole::key:
    case WeightRole::value:
      return {kv, p.hidden_size};
    case WeightRole::output:
      return {p.hidden_size, q};
    case WeightRole::gate:
    case WeightRole::up:
      return {p.intermediate_size, p.hidden_size};
    case WeightRole::down:
      return {p.hidden_size, p.intermediate_size};
    case WeightRole::query_bias:
      return {only_if(p.attention_bias), q};
    case WeightRole::key_bias:
    case WeightRole::value_bias:
      return {only_if(p.attention_bias), kv};
    case WeightRole::attention_output_bias:
      return {only_if(p.output_bias), p.hidden_size};
  }
  return {};
}

/// Numbers that the model learned.
inline std::int64_t parameter_count(const HyperParameters& p) {
  std::int64_t count = 0;
  const auto add = [&](WeightRole role, std::int64_t times) {
    const WeightShape shape = weight_shape(p, role);
    count += times * shape.rows * shape.columns;
  };
  for (const WeightRole role : kModelRoles) add(role, 1);
  for (const WeightRole role : kLayerRoles) add(role, p.layers);
  return count;
}

/// Takes one row of a tensor, f32; called from several threads, in any order.
using WeightRowSink = std::function<void(std::int64_t row, const float* values)>;

/// Tensors are handed out row by row, so that a decoder converts them to its own format without a
/// copy in between.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const HyperParameters& parameters() const = 0;
  /// Every row of a tensor that the model has, once; `layer` matters for roles of a layer. IoError
  /// after the last row, with their number, when values are infinite or not numbers.
  virtual void read(WeightRole role, int layer, const WeightRowSink& sink) const = 0;
  /// How many tensors there are of each number format ("F16", "Q4_K"), for a description.
  virtual std::map<std::string, int> stored_types() const { return {}; }
  /// Of the model file; of several, that of the lines "<sha256>  <name>" in order of their names.
  virtual std::string sha256() const = 0;
};

/// A whole tensor, [rows, columns]; empty where the model has none.
inline std::vector<float> read_weights(const WeightSource& source, WeightRole role, int layer = 0) {
  const WeightShape shape = weight_shape(source.parameters(), role);
  std::vector<float> values(static_cast<std::size_t>(shape.rows * shape.columns));
  if (shape.rows > 0)
    source.read(role, layer, [&](std::int64_t row, const float* from) {
      std::copy_n(from, shape.columns, values.data() + row * shape.columns);
    });
  return values;
}

}  // namespace dgap::engine
