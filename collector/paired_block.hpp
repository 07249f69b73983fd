#pragma once
#include <tbb/enumerable_thread_specific.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/decoder.hpp"
#include "runtime/row_scan.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::collector {

struct BlockShape {
  std::int64_t rows = 0;   // most rows of a block
  std::int64_t width = 0;  // logits per row as they are decoded
  std::int64_t vocab = 0;  // the model's real vocabulary: the rest is padding and left out
  std::int64_t hidden_size = 0;
  std::size_t precisions = 0;  // most that are decoded side by side
  std::int32_t top = 0;        // M
  double alpha_max = 0.95;
  bool full = false;    // keep all logits
  bool hidden = false;  // keep hidden states of the quantised decodes
};

/// Consecutive precisions of a part that are decoded side by side.
struct PrecisionGroup {
  std::size_t first = 0, count = 0;
};

/// The same rows of logits from the reference and from every quantised decode, and the columns of a
/// trace that follow from them (schemas/trace/trace-format.md). Rows are kept for one block, so
/// that the reference's order and masses are computed once for all precisions.
class PairedBlock {
 public:
  explicit PairedBlock(const BlockShape& shape);
  PairedBlock(const PairedBlock&) = delete;
  PairedBlock& operator=(const PairedBlock&) = delete;

  const BlockShape& shape() const { return shape_; }
  /// Where the decodes put the rows of a block. Start of a block: row 0.
  engine::LogitsSink& reference() { return sinks_.front(); }
  engine::LogitsSink& precision(std::size_t p) { return sinks_[p + 1]; }  // of the group

  /// Gives an empty part's columns their final size of `steps` rows.
  void prepare(schemas::TracePart& part, std::int64_t steps) const;
  /// Computes the columns of the block's rows, in parallel, and puts them into `part` from step
  /// `step` on: the reference's and the group's. `targets` has one id per row. Steps of a group
  /// come in order; a group after the first must have the reference's rows anew, which give the
  /// same. FailedError, naming `where`, row and precision, when a logit is not finite or a decode
  /// gave other than targets.size() rows.
  void put_into(schemas::TracePart& part, PrecisionGroup group, std::int64_t step,
                std::span<const std::int32_t> targets, const std::string& where);

  /// Bytes that an object of this shape takes, with scratch for that many threads.
  static double bytes(const BlockShape& shape, int threads);

 private:
  /// Keeps the rows of one decode.
  class Sink : public engine::LogitsSink {
   public:
    Sink(const BlockShape& shape, bool hidden);
    void take(std::int64_t first_row, std::int64_t rows, const float* logits,
              const float* hidden) override;
    std::span<const float> row(std::int64_t i) const;
    std::span<const std::uint16_t> hidden() const { return hidden_; }
    std::int64_t rows() const { return rows_; }
    void clear() { rows_ = 0; }

   private:
    const BlockShape& shape_;
    std::vector<float> logits_;          // [rows, vocab]
    std::vector<std::uint16_t> hidden_;  // [rows, hidden_size] binary16
    std::int64_t rows_ = 0;
  };

  /// Candidates of one row, before they are strung together.
  struct Ragged {
    std::vector<std::int32_t> ids;
    std::vector<float> logits;
    std::vector<std::vector<std::int32_t>> ranks;  // by precision
    std::vector<std::vector<float>> precision_logits;
  };

  struct Scratch {
    explicit Scratch(const BlockShape& shape);
    statistics::ReferenceRow reference;
    statistics::RowOrder ranks;
    runtime::RowScan scan;
  };

  void check_rows(PrecisionGroup group, std::size_t expected, const std::string& where) const;
  void compute(PrecisionGroup group, std::int64_t row, std::int32_t target, std::int64_t step,
               Scratch& scratch, schemas::TracePart& part);
  void compute_reference(std::int64_t row, std::int32_t target, std::int64_t step, Scratch& scratch,
                         schemas::ReferenceColumns& columns);
  void compute_precision(std::size_t p, std::int64_t row, std::int32_t target, std::int64_t step,
                         Scratch& scratch, schemas::PrecisionColumns& columns);
  void append_ragged(PrecisionGroup group, std::int64_t rows, schemas::TracePart& part) const;

  BlockShape shape_;
  std::vector<Sink> sinks_;  // reference, then precisions
  std::vector<Ragged> ragged_;
  tbb::enumerable_thread_specific<Scratch> scratch_;
};

}  // namespace dgap::collector
