#pragma once
#include <span>
#include <vector>

#include "engine/cache/hf_quantise.hpp"
#include "engine/cache/layer_codes.hpp"

namespace dgap::engine {

/// transformers' QuantizedCache: every append reads what there is, puts the new tokens after it and
/// codes the whole anew. Rows of the block that appended still read the codes before, until the
/// next block begins.
class HfCodes final : public LayerCodes {
 public:
  HfCodes(const schemas::TensorScheme& tensor, int heads, int head_dim);
  std::int64_t size() const override { return now_.tokens; }
  void begin_block() override { before_ = {}; }
  void append(std::int64_t end, const HeadReader& read) override;
  void read(int head, std::int64_t from, std::int64_t to, float* out) const override;
  std::int64_t bytes() const override;
  std::int64_t constant_bytes() const override { return 0; }

  /// What it stores, for tests and tools: codes [heads, size, row_bytes], scales [groups].
  std::span<const std::uint8_t> codes() const { return now_.codes; }
  std::span<const HfScale> scales() const { return now_.scales; }

 private:
  struct Stored {
    std::int64_t tokens = 0;
    std::vector<std::uint8_t> codes;
    std::vector<HfScale> scales;
  };
  HfGroups groups(std::int64_t tokens) const { return {tensor_, heads_, head_dim_, tokens}; }
  Stored encode(std::int64_t tokens, std::span<const float> x) const;
  void decode(const Stored& stored, int head, std::int64_t from, std::int64_t to, float* out) const;

  schemas::TensorScheme tensor_;
  int heads_, head_dim_;
  std::size_t row_bytes_;
  Stored now_, before_;
};

}  // namespace dgap::engine
