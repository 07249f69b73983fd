#pragma once
#include <string>
#include <vector>

#include "engine/backend/cpu/attention.hpp"
#include "engine/backend/cpu/matmul.hpp"
#include "engine/model/decoder.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Weights of a Llama, Mistral or Qwen2 model in the layout of one instruction set's kernels.
struct CpuModel {
  struct Layer {
    std::vector<float> attention_norm, ffn_norm;
    PanelMatrix query_key_value;              // each of the three begins at a whole panel
    std::vector<float> query_key_value_bias;  // [outputs of that]; empty where there is none
    PanelMatrix output;
    std::vector<float> output_bias;  // [hidden]; empty where there is none
    PanelMatrix gate_up;             // a panel: 16 gates, then the 16 ups that they go with
    PanelMatrix down;
  };

  /// Converts row by row: no copy but the packed one.
  CpuModel(const WeightSource& source, Isa isa, Compute compute);

  std::int64_t query_width() const { return std::int64_t{parameters.heads} * parameters.head_dim; }
  std::int64_t kv_width() const { return std::int64_t{parameters.kv_heads} * parameters.head_dim; }
  /// First output of the keys and values in query_key_value.
  std::int64_t key_output() const { return round_up<std::int64_t>(query_width(), kPanel); }
  std::int64_t value_output() const {
    return key_output() + round_up<std::int64_t>(kv_width(), kPanel);
  }
  const PanelMatrix& embedding() const {
    return parameters.tied_embeddings ? output_matrix : input_embedding;
  }

  HyperParameters parameters;
  std::string sha256;
  Isa isa;
  Compute compute;
  PanelMatrix input_embedding, output_matrix;  // the first only where embeddings are not tied
  std::vector<float> output_norm;
  std::vector<Layer> layers;
};

}  // namespace dgap::engine
