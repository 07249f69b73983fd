#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "engine/backend/cpu/attention.hpp"
#include "engine/backend/cpu/cpu_model.hpp"
#include "engine/cache/rope.hpp"
#include "engine/model/decoder.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Scratch of one forward pass.
struct CpuWorkspace {
  Buffer<float> residual;               // [rows, hidden]
  Buffer<float> queries, keys, values;  // [rows, heads * head_dim], [rows, kv_heads * head_dim]
  Activations normed, attended, ffn;
  Buffer<float> hidden, logits;  // of one group of logits rows
  Attention::Workspace attention;
};

/// Decoder-only transformers of the Llama, Mistral and Qwen2 families on the CPU: RMSNorm, RoPE,
/// grouped-query attention (with biases and sliding windows where the model has them), SwiGLU. The
/// residual stream, norms, biases, RoPE, scores, softmax and SwiGLU are f32 in both compute types.
///
/// A token's logits are the same bits whether it is appended alone, in a block or in a prefill, for
/// any thread count (kernels.hpp). Sequences of one decoder may be used by different threads.
class CpuDecoder final : public Decoder {
 public:
  /// `isa`: for tests; at most detected_isa().
  CpuDecoder(const WeightSource& source, const DecoderOptions& options, Isa isa = detected_isa());

  const ModelInfo& model() const override { return info_; }
  std::string compute() const override { return model_.compute == Compute::f32 ? "f32" : "bf16"; }
  std::string cpu_isa() const override;
  std::unique_ptr<Sequence> begin(std::int64_t capacity, bool keep_pre_rope = true) const override;
  std::unique_ptr<Sequence> begin_quantized(const schemas::Scheme& scheme) const override;

 private:
  friend class CpuSequence;
  class Lease;

  /// Covers positions [0, capacity).
  std::shared_ptr<const RopeTable> rope(std::int64_t capacity) const;

  CpuModel model_;
  ModelInfo info_;
  CacheShape shape_;
  ExactCacheType exact_cache_;
  Attention attention_;
  mutable std::mutex mutex_;  // of the two below
  mutable std::shared_ptr<const RopeTable> rope_;
  mutable std::vector<std::unique_ptr<CpuWorkspace>> workspaces_;
};

/// f32, bf16, or auto: bf16 where the processor has instructions for it. UsageError otherwise.
Compute resolve_compute(const std::string& name, Isa isa);

}  // namespace dgap::engine
