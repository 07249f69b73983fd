#pragma once
#include <tbb/enumerable_thread_specific.h>

#include <cstdint>
#include <vector>

#include "engine/model/decoder.hpp"
#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::collector {

/// The logits (and hidden states, when kept) of one decode's current block.
class LogitsBlock : public engine::LogitsSink {
 public:
  LogitsBlock(std::int64_t vocab_size, std::int64_t hidden_size, std::int64_t rows,
              bool keep_hidden);
  void clear() { logits_.clear(), hidden_.clear(); }
  void take(std::int64_t first_row, std::int64_t rows, const float* logits,
            const float* hidden) override;
  std::span<const float> row(std::int64_t i) const {
    return {logits_.data() + i * vocab_size_, static_cast<std::size_t>(vocab_size_)};
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(logits_.size()) / vocab_size_; }
  const std::vector<float>& logits() const { return logits_; }
  const std::vector<std::uint16_t>& hidden() const { return hidden_; }

 private:
  std::int64_t vocab_size_, hidden_size_;
  bool keep_hidden_;
  std::vector<float> logits_;          // [rows, V]
  std::vector<std::uint16_t> hidden_;  // [rows, d] binary16
};

/// Turns blocks of paired logits into the columns of a trace (schemas/trace/trace-format.md). Rows
/// are independent: parallel over them, the same bytes for any thread count.
class ColumnWriter {
 public:
  ColumnWriter(const engine::ModelInfo& model, const schemas::Config& config);
  LogitsBlock& reference() { return reference_; }
  LogitsBlock& precision(std::size_t index) { return precisions_[index]; }
  /// Appends the columns of the blocks' `rows` rows; the part's step columns already end with them.
  /// FailedError naming precision and position when logits are not finite.
  void append(std::int64_t rows, schemas::TracePart& part);

 private:
  /// C(alpha_max) of one row, until rows are joined.
  struct RowCandidates {
    std::vector<std::int32_t> ids;
    std::vector<float> logits;
    std::vector<std::vector<std::int32_t>> ranks;  // per precision
    std::vector<std::vector<float>> other_logits;  // per precision
  };
  /// What one thread works in.
  struct Scratch {
    explicit Scratch(std::int64_t vocab_size) : reference(vocab_size) {}
    statistics::ReferenceRow reference;
    std::vector<std::uint64_t> ranks, top;
  };

  void grow(std::int64_t rows, schemas::TracePart& part) const;
  void write_row(std::int64_t row, std::int64_t step, schemas::TracePart& part, Scratch& scratch);
  void write_reference(std::int64_t row, std::int64_t step, schemas::TracePart& part,
                       Scratch& scratch);
  void write_precision(std::size_t p, std::int64_t row, std::int64_t step, schemas::TracePart& part,
                       Scratch& scratch);
  void join_candidates(std::int64_t rows, schemas::TracePart& part) const;

  std::int64_t vocab_size_, hidden_size_;
  std::int32_t top_;
  double alpha_max_;
  bool full_, hidden_;
  LogitsBlock reference_;
  std::vector<LogitsBlock> precisions_;
  std::vector<RowCandidates> candidates_;  // per row of the block, reused
  tbb::enumerable_thread_specific<Scratch> scratch_;
};

}  // namespace dgap::collector
