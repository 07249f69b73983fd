#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// What a model file gives, whatever its format: hyper-parameters and f32 tensors by role. Readers
/// (engine/formats) fill it; decoders consume it.
namespace dgap::engine {

struct HyperParameters {
  std::string name, architecture, license;  // architecture: "llama"
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, context_length = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double rope_theta = 10000.0;
  double rms_epsilon = 1e-5;
  bool tied_embeddings = false;
};

/// Matrices are row-major [out, in], rows of q and k in the Hugging Face order (RoPE rotates channel
/// i with channel i + head_dim / 2), whatever the file's order is.
struct LayerWeights {
  std::vector<float> attention_norm, ffn_norm;
  std::vector<float> query, key, value, output;
  std::vector<float> gate, up, down;
};

/// Tensors come one at a time, so that a decoder can convert each to its own format and drop it.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const HyperParameters& parameters() const = 0;
  virtual std::vector<float> embedding() const = 0;     // [vocab, hidden]
  virtual std::vector<float> output_norm() const = 0;   // [hidden]
  virtual std::vector<float> output_matrix() const = 0;  // [vocab, hidden]; only when not tied
  virtual LayerWeights layer(int index) const = 0;
  virtual std::string sha256() const = 0;  // of the model file
};

}  // namespace dgap::engine
