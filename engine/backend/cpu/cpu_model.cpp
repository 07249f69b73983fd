#include "engine/backend/cpu/cpu_model.hpp"

#include "base/stop.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kHalfPanel = kPanel / 2;

/// Reads tensors straight into the kernels' layout.
class Builder {
 public:
  Builder(const CpuModel& model, const WeightSource& source)
      : model_(model), source_(source), kernel_(product_kernel(model.isa, model.compute)) {}

  CpuModel::Layer layer(int index) const {
    CpuModel::Layer layer;
    layer.attention_norm = read_weights(source_, WeightRole::attention_norm, index);
    layer.ffn_norm = read_weights(source_, WeightRole::ffn_norm, index);
    const std::int64_t outputs =
        model_.value_output() + round_up<std::int64_t>(model_.kv_width(), kPanel);
    layer.query_key_value = PanelMatrix(kernel_, outputs, model_.parameters.hidden_size);
    fill(layer.query_key_value, WeightRole::query, index, 0);
    fill(layer.query_key_value, WeightRole::key, index, model_.key_output());
    fill(layer.query_key_value, WeightRole::value, index, model_.value_output());
    if (model_.parameters.attention_bias) {
      layer.query_key_value_bias.resize(static_cast<std::size_t>(outputs));
      place(layer, WeightRole::query_bias, index, 0);
      place(layer, WeightRole::key_bias, index, model_.key_output());
      place(layer, WeightRole::value_bias, index, model_.value_output());
    }
    layer.output = matrix(WeightRole::output, index);
    layer.output_bias = read_weights(source_, WeightRole::attention_output_bias, index);
    layer.gate_up = gate_up(index);
    layer.down = matrix(WeightRole::down, index);
    return layer;
  }

  PanelMatrix matrix(WeightRole role, int index = 0) const {
    const WeightShape shape = weight_shape(model_.parameters, role);
    PanelMatrix matrix(kernel_, shape.rows, shape.columns);
    fill(matrix, role, index, 0);
    return matrix;
  }

 private:
  PanelMatrix gate_up(int index) const {
    const HyperParameters& p = model_.parameters;
    PanelMatrix matrix(kernel_, 2 * round_up(p.intermediate_size, kHalfPanel), p.hidden_size);
    const auto gate = [](std::int64_t i) { return i / kHalfPanel * kPanel + i % kHalfPanel; };
    source_.read(WeightRole::gate, index,
                 [&](std::int64_t row, const float* values) { matrix.set_row(gate(row), values); });
    source_.read(WeightRole::up, index, [&](std::int64_t row, const float* values) {
      matrix.set_row(gate(row) + kHalfPanel, values);
    });
    return matrix;
  }

  void fill(PanelMatrix& matrix, WeightRole role, int index, std::int64_t first) const {
    source_.read(role, index, [&](std::int64_t row, const float* values) {
      matrix.set_row(first + row, values);
    });
  }

  void place(CpuModel::Layer& layer, WeightRole role, int index, std::int64_t first) const {
    const std::vector<float> bias = read_weights(source_, role, index);
    std::copy(bias.begin(), bias.end(), layer.query_key_value_bias.begin() + first);
  }

  const CpuModel& model_;
  const WeightSource& source_;
  const ProductKernel& kernel_;
};

}  // namespace

CpuModel::CpuModel(const WeightSource& source, Isa isa_, Compute compute_)
    : parameters(source.parameters()), sha256(source.sha256()), isa(isa_), compute(compute_) {
  const Builder builder(*this, source);
  output_norm = read_weights(source, WeightRole::output_norm);
  if (parameters.tied_embeddings) {
    output_matrix = builder.matrix(WeightRole::embedding);
  } else {
    input_embedding = builder.matrix(WeightRole::embedding);
    output_matrix = builder.matrix(WeightRole::output_matrix);
  }
  for (int i = 0; i < parameters.layers; ++i) {
    base::throw_if_stop_requested();
    layers.push_back(builder.layer(i));
  }
}

}  // namespace dgap::engine
