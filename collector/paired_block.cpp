#include "collector/paired_block.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/half.hpp"
#include "statistics/exact_row.hpp"

namespace dgap::collector {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

PairedBlock::Sink::Sink(const BlockShape& shape, bool hidden)
    : shape_(shape),
      logits_(shape.rows * shape.vocab),
      hidden_(hidden ? shape.rows * shape.hidden_size : 0) {}

void PairedBlock::Sink::take(std::int64_t first_row, std::int64_t rows, const float* logits,
                             const float* hidden) {
  if (first_row != rows_ || first_row + rows > shape_.rows) {
    throw base::FailedError("the decoder gave rows out of order or more than it was asked for");
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(logits + i * shape_.width, shape_.vocab,
                logits_.data() + (first_row + i) * shape_.vocab);
  }
  if (!hidden_.empty()) {
    base::to_half(hidden, hidden_.data() + first_row * shape_.hidden_size,
                  static_cast<std::size_t>(rows * shape_.hidden_size));
  }
  rows_ += rows;
}

std::span<const float> PairedBlock::Sink::row(std::int64_t i) const {
  return std::span(logits_).subspan(i * shape_.vocab, shape_.vocab);
}

PairedBlock::Scratch::Scratch(const BlockShape& shape)
    : reference(shape.vocab, shape.top, shape.alpha_max), scan(shape.vocab, shape.top) {}

PairedBlock::PairedBlock(const BlockShape& shape)
    : shape_(shape), ragged_(shape.rows), scratch_([this] { return Scratch(shape_); }) {
  sinks_.reserve(shape.precisions + 1);
  sinks_.emplace_back(shape_, false);
  for (std::size_t p = 0; p < shape.precisions; ++p) sinks_.emplace_back(shape_, shape.hidden);
  for (Ragged& row : ragged_)
    row.ranks.resize(shape.precisions), row.precision_logits.resize(shape.precisions);
}

double PairedBlock::bytes(const BlockShape& shape, int threads) {
  constexpr double kBytesOfReferenceRow = 30.0, kBytesOfRanks = 10.0;
  const auto rows = static_cast<double>(shape.rows), vocab = static_cast<double>(shape.vocab);
  const auto precisions = static_cast<double>(shape.precisions);
  const double hidden = shape.hidden ? 2.0 * rows * static_cast<double>(shape.hidden_size) : 0.0;
  return (precisions + 1.0) * rows * vocab * sizeof(float) + precisions * hidden +
         threads * vocab * (kBytesOfReferenceRow + kBytesOfRanks);
}

void PairedBlock::prepare(schemas::TracePart& part, std::int64_t steps) const {
  const std::int64_t tops = steps * shape_.top, logits = shape_.full ? steps * shape_.vocab : 0;
  schemas::ReferenceColumns& r = part.reference;
  r.lse.resize(steps), r.entropy.resize(steps), r.target_logit.resize(steps);
  r.top_ids.resize(tops), r.top_logits.resize(tops), r.logits.resize(logits);
  r.candidate_first.reserve(steps + 1);
  r.candidate_first.push_back(0);
  for (schemas::PrecisionColumns& c : part.columns) {
    c.lse.resize(steps), c.entropy.resize(steps), c.target_logit.resize(steps), c.kl.resize(steps);
    c.served_lse.resize(steps), c.served_entropy.resize(steps);
    c.top_ids.resize(tops), c.top_logits.resize(tops);
    c.top_reference_logits.resize(tops), c.top_reference_mass_before.resize(tops);
    c.logits.resize(logits), c.hidden.resize(shape_.hidden ? steps * shape_.hidden_size : 0);
  }
}

void PairedBlock::check_rows(PrecisionGroup group, std::size_t expected,
                             const std::string& where) const {
  for (const Sink& sink : std::span(sinks_).first(1 + group.count)) {
    if (sink.rows() != static_cast<std::int64_t>(expected)) {
      throw base::FailedError(where + ": the decoder gave " + std::to_string(sink.rows()) +
                              " rows of logits, expected " + std::to_string(expected));
    }
  }
}

void PairedBlock::put_into(schemas::TracePart& part, PrecisionGroup group, std::int64_t step,
                           std::span<const std::int32_t> targets, const std::string& where) {
  check_rows(group, targets.size(), where);
  tbb::parallel_for(std::int64_t{0}, std::ssize(targets), [&](std::int64_t row) {
    try {
      compute(group, row, targets[row], step + row, scratch_.local(), part);
    } catch (const base::FailedError& error) {
      throw base::FailedError(where + ", row " + std::to_string(row) + ": " + error.what());
    }
  });
  append_ragged(group, std::ssize(targets), part);
  for (std::size_t p = 0; shape_.hidden && p < group.count; ++p) {
    const auto states = sinks_[p + 1].hidden().first(targets.size() * shape_.hidden_size);
    std::copy(states.begin(), states.end(),
              part.columns[group.first + p].hidden.begin() + step * shape_.hidden_size);
  }
  for (Sink& sink : sinks_) sink.clear();
}

void PairedBlock::compute(PrecisionGroup group, std::int64_t row, std::int32_t target,
                          std::int64_t step, Scratch& scratch, schemas::TracePart& part) {
  compute_reference(row, target, step, scratch, part.reference);
  for (std::size_t p = 0; p < group.count; ++p) {
    try {
      compute_precision(p, row, target, step, scratch, part.columns[group.first + p]);
    } catch (const base::FailedError& error) {
      throw base::FailedError(part.precisions[group.first + p].name + ": " + error.what());
    }
  }
}

void PairedBlock::compute_reference(std::int64_t row, std::int32_t target, std::int64_t step,
                                    Scratch& scratch, schemas::ReferenceColumns& columns) {
  const std::span<const float> logits = sinks_.front().row(row);
  statistics::ReferenceRow& reference = scratch.reference;
  reference.assign(logits);
  if (reference.finite() != shape_.vocab) {
    throw base::FailedError("the reference has a logit of -inf");
  }
  const std::span<const std::int32_t> order = reference.order();
  columns.lse[step] = reference.lse();
  columns.entropy[step] = reference.entropy();
  columns.target_logit[step] = logits[target];
  for (std::int32_t i = 0; i < shape_.top; ++i) {
    columns.top_ids[step * shape_.top + i] = order[i];
    columns.top_logits[step * shape_.top + i] = logits[order[i]];
  }
  const std::span<const std::int32_t> candidates = reference.candidates();
  Ragged& ragged = ragged_[row];
  ragged.ids.assign(candidates.begin(), candidates.end());
  ragged.logits.clear();
  for (const std::int32_t id : candidates) ragged.logits.push_back(logits[id]);
  if (shape_.full)
    std::copy(logits.begin(), logits.end(), columns.logits.begin() + step * shape_.vocab);
}

void PairedBlock::compute_precision(std::size_t p, std::int64_t row, std::int32_t target,
                                    std::int64_t step, Scratch& scratch,
                                    schemas::PrecisionColumns& columns) {
  const std::span<const float> logits = sinks_[p + 1].row(row);
  const statistics::ExactRow exact = statistics::exact_row(logits);
  if (!exact.valid || exact.finite != shape_.vocab) {
    throw base::FailedError("a logit is not finite");
  }
  const runtime::RowStatistics served = scratch.scan.assign(logits);
  statistics::ReferenceRow& reference = scratch.reference;
  columns.lse[step] = exact.lse;
  columns.entropy[step] = exact.entropy;
  columns.served_lse[step] = served.lse;
  columns.served_entropy[step] = served.entropy;
  columns.target_logit[step] = logits[target];
  columns.kl[step] = static_cast<float>(reference.kl_to(logits, exact.lse));

  const std::int64_t first = step * shape_.top;
  scratch.scan.top(columns.top_ids.data() + first, columns.top_logits.data() + first);
  const auto top = std::span(columns.top_ids).subspan(first, shape_.top);
  reference.masses_before(top, columns.top_reference_mass_before.data() + first);
  for (std::int64_t i = 0; i < shape_.top; ++i) {
    columns.top_reference_logits[first + i] = reference.logits()[top[i]];
  }

  Ragged& ragged = ragged_[row];
  ragged.ranks[p].resize(ragged.ids.size());
  statistics::ranks_of(logits, ragged.ids, ragged.ranks[p].data(), scratch.ranks);
  ragged.precision_logits[p].clear();
  for (const std::int32_t id : ragged.ids) ragged.precision_logits[p].push_back(logits[id]);
  if (shape_.full)
    std::copy(logits.begin(), logits.end(), columns.logits.begin() + step * shape_.vocab);
}

void PairedBlock::append_ragged(PrecisionGroup group, std::int64_t rows,
                                schemas::TracePart& part) const {
  schemas::ReferenceColumns& reference = part.reference;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Ragged& ragged = ragged_[row];
    if (group.first == 0) {
      append(reference.candidate_ids, ragged.ids);
      append(reference.candidate_logits, ragged.logits);
      reference.candidate_first.push_back(std::ssize(reference.candidate_ids));
    }
    for (std::size_t p = 0; p < group.count; ++p) {
      schemas::PrecisionColumns& columns = part.columns[group.first + p];
      append(columns.candidate_ranks, ragged.ranks[p]);
      append(columns.candidate_logits, ragged.precision_logits[p]);
    }
  }
}

}  // namespace dgap::collector
