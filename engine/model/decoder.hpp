#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schemas/scheme/scheme.hpp"

/// The seam between the toolkit and a model on a device. CPU implements it (engine/backend/cpu);
/// CUDA will, with the CPU as its oracle.
namespace dgap::engine {

/// Number format of weights and activations in matrix products; accumulation and softmax are f32.
enum class Compute { f32, bf16 };

/// Storage of the exact cache: FP16 as served, or f32 to compare the engine with others.
enum class ExactCacheType { f16, f32 };

struct ModelInfo {
  std::string name, architecture, license;
  std::int64_t vocab_size = 0;  // rows of the output matrix; logits have this width
  std::int64_t hidden_size = 0;
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t context_length = 0;
  std::string model_sha256;
  std::vector<std::string> notes =
      {};  // what the reader had to decide by itself, for the user to know
};

struct DecoderOptions {
  std::string compute =
      "auto";  // auto | f32 | bf16; auto = bf16 where the CPU has AMX or AVX512-BF16
  ExactCacheType exact_cache = ExactCacheType::f16;
};

/// Takes logits as they are computed, in order, some rows at a time.
class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  /// Rows first_row .. first_row + rows - 1 (counted from the first logits row of the call);
  /// logits [rows, vocab_size], hidden [rows, hidden_size] after the final norm. Both are valid
  /// during the call only.
  virtual void take(std::int64_t first_row, std::int64_t rows, const float* logits,
                    const float* hidden) = 0;
};

/// Bytes that a cache has allocated, and the elements that they hold.
struct CacheBytes {
  std::int64_t elements_key = 0, elements_value = 0;              // quantised elements
  std::int64_t code_bytes_key = 0, code_bytes_value = 0;          // codes and scales of those
  std::int64_t total_elements_key = 0, total_elements_value = 0;  // all tokens
  std::int64_t total_bytes_key = 0, total_bytes_value = 0;        // with window, sinks, statistics
  // Bits per element: 8 * bytes / elements; 16 where nothing is quantised (or nothing is stored).
  double bits_key() const { return bits(code_bytes_key, elements_key); }
  double bits_value() const { return bits(code_bytes_value, elements_value); }
  double total_bits_key() const { return bits(total_bytes_key, total_elements_key); }
  double total_bits_value() const { return bits(total_bytes_value, total_elements_value); }

 private:
  static double bits(std::int64_t bytes, std::int64_t elements) {
    return elements == 0 ? 16.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  }
};

class ExactCache;

/// One token sequence with its cache. Not thread-safe; parallel inside.
class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual std::int64_t length() const = 0;
  /// Appends tokens; all rows at once in blocks (matrix products). With a sink, logits of the rows
  /// >= first_logits_row are computed. On an exact sequence this is the prefill as well as the
  /// reference decode; on a fork it is the blocked teacher-forced decode: each row sees exactly the
  /// cache it would have seen step by step.
  virtual void append(std::span<const std::int32_t> tokens, LogitsSink* sink,
                      std::int64_t first_logits_row = 0) = 0;
  /// The same, one token at a time.
  virtual void append_stepwise(std::span<const std::int32_t> tokens, LogitsSink* sink) = 0;
  /// A quantised continuation of the first `length` tokens of this exact sequence. Shares the exact
  /// prefix, which must outlive it and may grow meanwhile.
  virtual std::unique_ptr<Sequence> fork(const schemas::Scheme& scheme,
                                         std::int64_t length) const = 0;
  virtual CacheBytes cache_bytes() const = 0;
  /// Its exact keys and values; null where it has none, or they are not in this machine's memory.
  virtual const ExactCache* exact_cache() const { return nullptr; }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelInfo& model() const = 0;
  /// "f32" or "bf16", as resolved.
  virtual std::string compute() const = 0;
  /// Instruction set that the results depend on ("avx512_amx", "avx2", ...).
  virtual std::string cpu_isa() const = 0;
  /// An empty exact sequence; `capacity` tokens are reserved. Keys before RoPE are kept as well
  /// when `keep_pre_rope` (needed to fork schemes with key_before_rope).
  virtual std::unique_ptr<Sequence> begin(std::int64_t capacity,
                                          bool keep_pre_rope = true) const = 0;
  /// An empty sequence over a cache of the scheme: its prefill attends to what the cache holds, as
  /// with `prefill: quantized`. UsageError where the scheme does not fit the model.
  virtual std::unique_ptr<Sequence> begin_quantized(const schemas::Scheme& scheme) const = 0;
};

/// A decode of the scheme after `prefix`, which `exact` begins with: a fork of it or, with
/// `prefill: quantized`, a pass of its own over the prefix.
std::unique_ptr<Sequence> continue_prefix(const Decoder& decoder, const Sequence& exact,
                                          std::span<const std::int32_t> prefix,
                                          const schemas::Scheme& scheme);

/// Opens a model file. IoError / UsageError naming what is wrong; UnavailableError for a device or
/// compute type that this machine or build lacks.
std::unique_ptr<Decoder> open_decoder(const std::string& path, const std::string& format,
                                      const std::string& device, const DecoderOptions& options);

}  // namespace dgap::engine
