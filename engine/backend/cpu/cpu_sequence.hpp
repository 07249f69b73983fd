#pragma once
#include <memory>

#include "engine/backend/cpu/cpu_decoder.hpp"
#include "engine/cache/exact_cache.hpp"

namespace dgap::engine {

class CpuSequence final : public Sequence {
 public:
  CpuSequence(const CpuDecoder& decoder, std::unique_ptr<ExactCache> cache);
  CpuSequence(const CpuDecoder& decoder, std::unique_ptr<KvCache> quantized);

  std::int64_t length() const override { return cache_->length(); }
  void append(std::span<const std::int32_t> tokens, LogitsSink* sink,
              std::int64_t first_logits_row) override;
  void append_stepwise(std::span<const std::int32_t> tokens, LogitsSink* sink) override;
  std::unique_ptr<Sequence> fork(const schemas::Scheme& scheme, std::int64_t length) const override;
  CacheBytes cache_bytes() const override { return cache_->bytes(); }
  const ExactCache* exact_cache() const override { return exact_; }

 private:
  void check(std::span<const std::int32_t> tokens) const;
  void append_blocks(std::span<const std::int32_t> tokens, std::int64_t block, LogitsSink* sink,
                     std::int64_t first_logits_row);
  /// All layers; leaves the residual stream of the rows in the workspace.
  void forward(std::span<const std::int32_t> tokens, CpuWorkspace& workspace);
  /// Logits of rows [first, first + rows) of the residual stream, which is at `position`.
  void logits(std::int64_t first, std::int64_t rows, std::int64_t position, std::int64_t sink_row,
              LogitsSink& sink, CpuWorkspace& workspace) const;

  const CpuDecoder& decoder_;
  std::unique_ptr<KvCache> cache_;
  const ExactCache* exact_ = nullptr;  // cache_, where it is one
};

}  // namespace dgap::engine
