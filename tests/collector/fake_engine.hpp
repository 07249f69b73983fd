#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model/decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"

/// A decoder and a tokenizer whose every output is a known function of its input.
namespace dgap::testing {

/// Logit of `token` after `history`: the same for the exact decode and all forks, but for a
/// disturbance that depends on the scheme and on where the fork began. Multiples of 1/8, so that
/// there are ties.
inline float fake_logit(std::span<const std::int32_t> history, const schemas::Scheme* scheme,
                        std::int64_t fork_length, std::int32_t token) {
  std::uint64_t seed = 17;
  for (const std::int32_t t : history.last(std::min<std::size_t>(3, history.size())))
    seed = seed * 31 + t;
  seed = seed * 31 + history.size();
  const auto hash = [](std::uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdULL, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL,
        x ^= x >> 33;
    return x;
  };
  const auto wave = [&](std::uint64_t x, double size) {
    return static_cast<float>(
        std::round(size * (static_cast<double>(hash(x) % 1000) / 500.0 - 1.0) * 8.0) / 8.0);
  };
  float z = wave(seed * 1000003 + token, 6.0);
  if (scheme != nullptr && scheme->key.bits < 16) {
    z += wave(seed * 7919 + token * 13 + fork_length, 4.0 / scheme->key.bits);
  }
  return z;
}

class FakeDecoder : public engine::Decoder {
 public:
  FakeDecoder(std::int64_t width, std::int64_t hidden) : width_(width) {
    info_ = {"fake", "llama", "none", width, hidden, 1, 1, 1, 4, 100'000, "model-sha", {}};
  }
  const engine::ModelInfo& model() const override { return info_; }
  std::string compute() const override { return "f32"; }
  std::string cpu_isa() const override { return "fake"; }
  std::unique_ptr<engine::Sequence> begin(std::int64_t capacity, bool) const override {
    ++begun;
    return std::make_unique<Sequence>(*this, capacity);
  }

  std::unique_ptr<engine::Sequence> begin_quantized(const schemas::Scheme& scheme) const override {
    ++begun_quantized;
    return std::make_unique<Sequence>(*this, info_.context_length, scheme);
  }

  // What happened, and what should: from the test.
  mutable int begun = 0, begun_quantized = 0, forked = 0, stepwise_calls = 0;
  mutable std::int64_t rows = 0, largest_call = 0;
  std::int64_t poison_row = -1;  // the logits row, counted over all, that holds NaN
  std::function<void()> on_rows = [] {};

  /// Exact in binary16.
  static float hidden_value(std::int32_t token, std::int64_t i) {
    return static_cast<float>(token) + static_cast<float>(i) / 4.0f;
  }

 private:
  class Sequence : public engine::Sequence {
   public:
    Sequence(const FakeDecoder& decoder, std::int64_t capacity)
        : decoder_(decoder), capacity_(capacity) {}
    Sequence(const FakeDecoder& decoder, std::int64_t capacity, const schemas::Scheme& scheme)
        : decoder_(decoder), capacity_(capacity), scheme_(scheme), is_fork_(true) {}
    std::int64_t length() const override { return static_cast<std::int64_t>(history_.size()); }
    void append(std::span<const std::int32_t> tokens, engine::LogitsSink* sink,
                std::int64_t first) override {
      take(tokens, sink, first, 3);  // rows come three at a time
    }
    void append_stepwise(std::span<const std::int32_t> tokens, engine::LogitsSink* sink) override {
      ++decoder_.stepwise_calls;
      take(tokens, sink, 0, 1);
    }
    std::unique_ptr<engine::Sequence> fork(const schemas::Scheme& scheme,
                                           std::int64_t length) const override {
      if (length > this->length()) throw std::logic_error("fork beyond the exact prefix");
      ++decoder_.forked;
      auto copy = std::make_unique<Sequence>(decoder_, capacity_);
      copy->history_.assign(history_.begin(), history_.begin() + length);
      copy->scheme_ = scheme;
      copy->is_fork_ = true;
      copy->fork_length_ = length;
      return copy;
    }
    engine::CacheBytes cache_bytes() const override {
      engine::CacheBytes bytes;
      bytes.elements_key = bytes.elements_value = bytes.total_elements_key =
          bytes.total_elements_value = 1000;
      bytes.code_bytes_key = 125 * scheme_.key.bits,
      bytes.code_bytes_value = 125 * scheme_.value.bits;
      bytes.total_bytes_key = bytes.code_bytes_key + length(),
      bytes.total_bytes_value = bytes.code_bytes_value;
      return bytes;
    }

   private:
    void take(std::span<const std::int32_t> tokens, engine::LogitsSink* sink, std::int64_t first,
              std::int64_t group) {
      if (length() + static_cast<std::int64_t>(tokens.size()) > capacity_)
        throw std::logic_error("beyond capacity");
      decoder_.largest_call = std::max<std::int64_t>(decoder_.largest_call, tokens.size());
      std::vector<float> logits, hidden;
      std::int64_t row = 0, pending = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        history_.push_back(tokens[i]);
        if (sink == nullptr || static_cast<std::int64_t>(i) < first) continue;
        for (std::int32_t v = 0; v < decoder_.width_; ++v) {
          logits.push_back(fake_logit(history_, is_fork_ ? &scheme_ : nullptr, fork_length_, v));
        }
        for (std::int64_t d = 0; d < decoder_.info_.hidden_size; ++d) {
          hidden.push_back(hidden_value(tokens[i], d));
        }
        if (decoder_.rows++ == decoder_.poison_row) logits.back() = std::nanf("");
        if (++pending == group || i + 1 == tokens.size()) {
          sink->take(row, pending, logits.data(), hidden.data());
          row += pending, pending = 0;
          logits.clear(), hidden.clear();
        }
      }
      decoder_.on_rows();
    }

    const FakeDecoder& decoder_;
    std::int64_t capacity_;
    std::vector<std::int32_t> history_;
    schemas::Scheme scheme_;
    bool is_fork_ = false;
    std::int64_t fork_length_ = 0;
  };

  std::int64_t width_;
  engine::ModelInfo info_;
};

/// One token per byte, modulo the vocabulary.
class FakeTokenizer : public engine::Tokenizer {
 public:
  FakeTokenizer(std::int64_t vocab, std::int32_t bos) : vocab_(vocab), bos_(bos) {}
  std::int64_t vocab_size() const override { return vocab_; }
  std::vector<std::int32_t> encode(std::string_view text, bool = false) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text)
      ids.push_back(static_cast<std::int32_t>(static_cast<unsigned char>(c) % vocab_));
    return ids;
  }
  std::string decode(std::span<const std::int32_t>) const override { return {}; }
  std::int32_t bos() const override { return bos_; }
  std::int32_t eos() const override { return -1; }
  std::string sha256() const override { return "tokenizer-sha"; }

 private:
  std::int64_t vocab_;
  std::int32_t bos_;
};

}  // namespace dgap::testing
