#include "engine/backend/cpu/cpu_model.hpp"

#include "base/error.hpp"
#include "base/stop.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kHalfPanel = kPanel / 2;

class Builder {
 public:
  Builder(const CpuModel& model)
      : model_(model), kernel_(product_kernel(model.isa, model.compute)) {}

  CpuModel::Layer layer(const LayerWeights& weights) const {
    const HyperParameters& p = model_.parameters;
    const std::int64_t queries = model_.query_width(), kv = model_.kv_width();
    CpuModel::Layer layer;
    layer.attention_norm = vector(weights.attention_norm, "attention norm");
    layer.ffn_norm = vector(weights.ffn_norm, "feed-forward norm");
    layer.query_key_value = PanelMatrix(
        kernel_, model_.value_output() + round_up<std::int64_t>(kv, kPanel), p.hidden_size);
    fill(layer.query_key_value, weights.query, queries, 0, "query");
    fill(layer.query_key_value, weights.key, kv, model_.key_output(), "key");
    fill(layer.query_key_value, weights.value, kv, model_.value_output(), "value");
    layer.output = matrix(weights.output, p.hidden_size, queries, "attention output");
    layer.gate_up = gate_up(weights);
    layer.down = matrix(weights.down, p.hidden_size, p.intermediate_size, "down");
    return layer;
  }

  PanelMatrix matrix(const std::vector<float>& weights, std::int64_t outputs, std::int64_t inputs,
                     const char* what) const {
    PanelMatrix matrix(kernel_, outputs, inputs);
    fill(matrix, weights, outputs, 0, what);
    return matrix;
  }

  std::vector<float> vector(const std::vector<float>& weights, const char* what) const {
    check(weights, model_.parameters.hidden_size, what);
    return weights;
  }

 private:
  PanelMatrix gate_up(const LayerWeights& weights) const {
    const HyperParameters& p = model_.parameters;
    check(weights.gate, p.intermediate_size * p.hidden_size, "gate");
    check(weights.up, p.intermediate_size * p.hidden_size, "up");
    PanelMatrix matrix(kernel_, 2 * round_up(p.intermediate_size, kHalfPanel), p.hidden_size);
    const auto gate = [](std::int64_t i) { return i / kHalfPanel * kPanel + i % kHalfPanel; };
    set_rows(matrix, weights.gate, gate);
    set_rows(matrix, weights.up, [&](std::int64_t i) { return gate(i) + kHalfPanel; });
    return matrix;
  }

  void fill(PanelMatrix& matrix, const std::vector<float>& weights, std::int64_t outputs,
            std::int64_t first, const char* what) const {
    check(weights, outputs * matrix.inputs(), what);
    set_rows(matrix, weights, [first](std::int64_t row) { return first + row; });
  }

  void check(const std::vector<float>& weights, std::int64_t size, const char* what) const {
    if (std::ssize(weights) == size) return;
    throw base::IoError(model_.parameters.name + ": the " + what + " tensor has " +
                        std::to_string(weights.size()) + " values; the hyper-parameters ask for " +
                        std::to_string(size));
  }

  const CpuModel& model_;
  const ProductKernel& kernel_;
};

}  // namespace

CpuModel::CpuModel(const WeightSource& source, Isa isa_, Compute compute_)
    : parameters(source.parameters()), sha256(source.sha256()), isa(isa_), compute(compute_) {
  const Builder builder(*this);
  const std::int64_t vocab = parameters.vocab_size, hidden = parameters.hidden_size;
  output_norm = builder.vector(source.output_norm(), "output norm");
  if (parameters.tied_embeddings) {
    output_matrix = builder.matrix(source.embedding(), vocab, hidden, "embedding");
  } else {
    input_embedding = builder.matrix(source.embedding(), vocab, hidden, "embedding");
    output_matrix = builder.matrix(source.output_matrix(), vocab, hidden, "output");
  }
  for (int i = 0; i < parameters.layers; ++i) {
    base::throw_if_stop_requested();
    layers.push_back(builder.layer(source.layer(i)));
  }
}

}  // namespace dgap::engine
