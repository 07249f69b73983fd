#pragma once
// A small random Llama model given straight to the decoder, and its forward pass written down a
// second time, in f64 and without a cache.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "engine/model/decoder.hpp"
#include "engine/model/weights.hpp"

namespace dgap::testing {

class TinyWeights : public engine::WeightSource {
 public:
  TinyWeights() {
    shape.name = "tiny", shape.architecture = "llama", shape.license = "apache-2.0";
    shape.vocab_size = 331, shape.hidden_size = 72, shape.intermediate_size = 100;
    shape.layers = 3, shape.heads = 6, shape.kv_heads = 2, shape.head_dim = 32;
    shape.context_length = 2000, shape.rope = 10000.0, shape.rms_epsilon = 1e-5;
    shape.tied_embeddings = true;
  }

  engine::HyperParameters shape;
  double output_norm_scale = 1.0;

  const engine::HyperParameters& parameters() const override { return shape; }
  std::string sha256() const override { return std::string(64, 'a'); }
  void read(engine::WeightRole role, int layer, const engine::WeightRowSink& sink) const override {
    const std::vector<float> values = tensor(role, layer);
    const std::int64_t columns = weight_shape(shape, role).columns;
    for (std::int64_t row = 0; row * columns < std::ssize(values); ++row)
      sink(row, values.data() + row * columns);
  }
  /// Normal numbers: norms about 1 (the last about output_norm_scale), embeddings with deviation
  /// .5, biases with 1, matrices with 1.5 / sqrt(inputs).
  virtual std::vector<float> tensor(engine::WeightRole role, int layer) const {
    using engine::WeightRole;
    const engine::WeightShape size = weight_shape(shape, role);
    const std::string name = std::to_string(layer) + "/" + std::to_string(static_cast<int>(role));
    switch (role) {
      case WeightRole::output_norm:
        return norm(name, output_norm_scale);
      case WeightRole::attention_norm:
      case WeightRole::ffn_norm:
        return norm(name, 1.0);
      case WeightRole::embedding:
      case WeightRole::output_matrix:
        return matrix(name, size.rows, size.columns, 0.5);
      default:
        return matrix(name, size.rows, size.columns, size.rows == 1 ? 1.0 : scale(size.columns));
    }
  }

 private:
  static double scale(std::int64_t inputs) { return 1.5 / std::sqrt(static_cast<double>(inputs)); }
  static std::vector<float> matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
                                   double scale) {
    base::Random random(1, name);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (float& x : values) x = static_cast<float>(scale * random.normal());
    return values;
  }
  std::vector<float> norm(const std::string& name, double scale) const {
    std::vector<float> values = matrix("norm" + name, 1, shape.hidden_size, 0.1 * scale);
    for (float& x : values) x += static_cast<float>(scale);
    return values;
  }
};

/// Logits [tokens, vocab] in f64.
class ReferenceForward {
 public:
  explicit ReferenceForward(const engine::WeightSource& weights)
      : weights_(weights), p_(weights.parameters()) {}

  std::vector<std::vector<double>> logits(std::span<const std::int32_t> tokens) const {
    const std::vector<float> embedding = get(engine::WeightRole::embedding);
    std::vector<Row> x;
    for (const std::int32_t token : tokens) {
      const auto from = embedding.begin() + token * p_.hidden_size;
      x.emplace_back(from, from + p_.hidden_size);
    }
    for (int l = 0; l < p_.layers; ++l) run_layer(l, x);
    const std::vector<float> head =
        p_.tied_embeddings ? embedding : get(engine::WeightRole::output_matrix);
    const std::vector<float> norm = get(engine::WeightRole::output_norm);
    std::vector<Row> out;
    for (const Row& row : x) out.push_back(multiply(head, normed(row, norm)));
    return out;
  }

 private:
  using Row = std::vector<double>;

  std::vector<float> get(engine::WeightRole role, int layer = 0) const {
    return read_weights(weights_, role, layer);
  }
  static Row plus(Row x, const std::vector<float>& bias) {
    for (std::size_t i = 0; i < bias.size(); ++i) x[i] += double{bias[i]};
    return x;
  }
  static Row multiply(const std::vector<float>& matrix, const Row& x) {
    Row y(matrix.size() / x.size());
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += double{matrix[o * x.size() + i]} * x[i];
    return y;
  }
  Row normed(const Row& x, const std::vector<float>& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + p_.rms_epsilon);
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
    return y;
  }
  void rotate(Row& rows, std::size_t position) const {
    const auto d = static_cast<std::size_t>(p_.head_dim), half = d / 2;
    for (std::size_t begin = 0; begin < rows.size(); begin += d)
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(p_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        const double a = rows[begin + i], b = rows[begin + i + half];
        rows[begin + i] = a * std::cos(angle) - b * std::sin(angle);
        rows[begin + i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
  }
  /// Over the last `window` keys, or all of them.
  Row attend(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values,
             std::int64_t window) const {
    const std::size_t first = window > 0 && std::ssize(keys) > window
                                  ? keys.size() - static_cast<std::size_t>(window)
                                  : 0;
    const auto d = static_cast<std::size_t>(p_.head_dim);
    Row out(query.size());
    for (std::size_t h = 0; h < static_cast<std::size_t>(p_.heads); ++h) {
      const std::size_t from = h / static_cast<std::size_t>(p_.heads / p_.kv_heads) * d;
      Row weights(keys.size(), -1e300);
      for (std::size_t t = first; t < keys.size(); ++t) weights[t] = 0.0;
      for (std::size_t t = first; t < keys.size(); ++t)
        for (std::size_t i = 0; i < d; ++i)
          weights[t] += query[h * d + i] * keys[t][from + i] / std::sqrt(static_cast<double>(d));
      const double top = *std::max_element(weights.begin(), weights.end());
      double mass = 0;
      for (double& w : weights) mass += w = std::exp(w - top);
      for (std::size_t t = 0; t < keys.size(); ++t)
        for (std::size_t i = 0; i < d; ++i)
          out[h * d + i] += weights[t] / mass * values[t][from + i];
    }
    return out;
  }
  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  void run_layer(int layer, std::vector<Row>& x) const {
    using engine::WeightRole;
    const auto w = [&](WeightRole role) { return get(role, layer); };
    const auto attention_norm = w(WeightRole::attention_norm), ffn_norm = w(WeightRole::ffn_norm);
    const auto q = w(WeightRole::query), k = w(WeightRole::key), v = w(WeightRole::value);
    const auto bq = w(WeightRole::query_bias), bk = w(WeightRole::key_bias);
    const auto bv = w(WeightRole::value_bias), bo = w(WeightRole::attention_output_bias);
    const auto o = w(WeightRole::output), gates = w(WeightRole::gate), ups = w(WeightRole::up);
    const auto down = w(WeightRole::down);
    std::vector<Row> keys, values;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row n = normed(x[t], attention_norm);
      Row query = plus(multiply(q, n), bq);
      keys.push_back(plus(multiply(k, n), bk)), values.push_back(plus(multiply(v, n), bv));
      rotate(query, t), rotate(keys.back(), t);
      add(x[t], plus(multiply(o, attend(query, keys, values, p_.window(layer))), bo));
      const Row m = normed(x[t], ffn_norm);
      Row gate = multiply(gates, m);
      const Row up = multiply(ups, m);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
      add(x[t], multiply(down, gate));
    }
  }

  const engine::WeightSource& weights_;
  const engine::HyperParameters& p_;
};

inline std::vector<std::int32_t> random_text(std::int64_t count, std::int64_t vocabulary) {
  base::Random random(2, "text");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return tokens;
}

/// Keeps all logits and hidden states, and checks that rows come in order.
class KeepLogits : public engine::LogitsSink {
 public:
  explicit KeepLogits(const engine::ModelInfo& model) : model_(model) {}
  void take(std::int64_t first_row, std::int64_t count, const float* logits,
            const float* hidden) override {
    in_order = in_order && first_row == rows;
    rows += count;
    values.insert(values.end(), logits, logits + count * model_.vocab_size);
    hidden_states.insert(hidden_states.end(), hidden, hidden + count * model_.hidden_size);
  }
  std::int64_t rows = 0;
  bool in_order = true;
  std::vector<float> values, hidden_states;

 private:
  const engine::ModelInfo& model_;
};

}  // namespace dgap::testing
