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
    shape.context_length = 2000, shape.rope_theta = 10000.0, shape.rms_epsilon = 1e-5;
    shape.tied_embeddings = true;
  }

  engine::HyperParameters shape;
  double output_norm_scale = 1.0;

  const engine::HyperParameters& parameters() const override { return shape; }
  std::string sha256() const override { return std::string(64, 'a'); }
  std::vector<float> embedding() const override {
    return matrix("embedding", shape.vocab_size, shape.hidden_size, 0.5);
  }
  std::vector<float> output_matrix() const override {
    return matrix("output", shape.vocab_size, shape.hidden_size, 0.5);
  }
  std::vector<float> output_norm() const override { return norm("output", output_norm_scale); }
  engine::LayerWeights layer(int index) const override {
    const std::string name = std::to_string(index);
    const std::int64_t hidden = shape.hidden_size, ffn = shape.intermediate_size;
    const std::int64_t q = std::int64_t{shape.heads} * shape.head_dim,
                       kv = std::int64_t{shape.kv_heads} * shape.head_dim;
    engine::LayerWeights w;
    w.attention_norm = norm(name + "attention", 1.0), w.ffn_norm = norm(name + "ffn", 1.0);
    w.query = matrix(name + "query", q, hidden, scale(hidden)),
    w.key = matrix(name + "key", kv, hidden, scale(hidden));
    w.value = matrix(name + "value", kv, hidden, scale(hidden)),
    w.output = matrix(name + "o", hidden, q, scale(q));
    w.gate = matrix(name + "gate", ffn, hidden, scale(hidden)),
    w.up = matrix(name + "up", ffn, hidden, scale(hidden));
    w.down = matrix(name + "down", hidden, ffn, scale(ffn));
    return w;
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
    const std::vector<float> embedding = weights_.embedding();
    std::vector<Row> x;
    for (const std::int32_t token : tokens) {
      const auto from = embedding.begin() + token * p_.hidden_size;
      x.emplace_back(from, from + p_.hidden_size);
    }
    for (int l = 0; l < p_.layers; ++l) run_layer(weights_.layer(l), x);
    const std::vector<float> head = p_.tied_embeddings ? embedding : weights_.output_matrix();
    const std::vector<float> norm = weights_.output_norm();
    std::vector<Row> out;
    for (const Row& row : x) out.push_back(multiply(head, normed(row, norm)));
    return out;
  }

 private:
  using Row = std::vector<double>;

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
            std::pow(p_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        const double a = rows[begin + i], b = rows[begin + i + half];
        rows[begin + i] = a * std::cos(angle) - b * std::sin(angle);
        rows[begin + i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
  }
  Row attend(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values) const {
    const auto d = static_cast<std::size_t>(p_.head_dim);
    Row out(query.size());
    for (std::size_t h = 0; h < static_cast<std::size_t>(p_.heads); ++h) {
      const std::size_t from = h / static_cast<std::size_t>(p_.heads / p_.kv_heads) * d;
      Row weights(keys.size());
      for (std::size_t t = 0; t < keys.size(); ++t)
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
  void run_layer(const engine::LayerWeights& w, std::vector<Row>& x) const {
    std::vector<Row> keys, values;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row n = normed(x[t], w.attention_norm);
      Row query = multiply(w.query, n);
      keys.push_back(multiply(w.key, n)), values.push_back(multiply(w.value, n));
      rotate(query, t), rotate(keys.back(), t);
      add(x[t], multiply(w.output, attend(query, keys, values)));
      const Row m = normed(x[t], w.ffn_norm);
      Row gate = multiply(w.gate, m);
      const Row up = multiply(w.up, m);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
      add(x[t], multiply(w.down, gate));
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
