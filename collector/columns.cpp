#include "collector/columns.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/half.hpp"
#include "runtime/window.hpp"

namespace dgap::collector {

LogitsBlock::LogitsBlock(std::int64_t vocab_size, std::int64_t hidden_size, std::int64_t rows,
                         bool keep_hidden)
    : vocab_size_(vocab_size), hidden_size_(hidden_size), keep_hidden_(keep_hidden) {
  logits_.reserve(static_cast<std::size_t>(rows * vocab_size));
}

void LogitsBlock::take(std::int64_t, std::int64_t rows, const float* logits, const float* hidden) {
  logits_.insert(logits_.end(), logits, logits + rows * vocab_size_);
  if (!keep_hidden_) return;
  const std::size_t old = hidden_.size(), added = static_cast<std::size_t>(rows * hidden_size_);
  hidden_.resize(old + added);
  base::to_half(hidden, hidden_.data() + old, added);
}

ColumnWriter::ColumnWriter(const engine::ModelInfo& model, const schemas::Config& config)
    : vocab_size_(model.vocab_size),
      hidden_size_(model.hidden_size),
      top_(static_cast<std::int32_t>(std::min<std::int64_t>(config.trace_top(), model.vocab_size))),
      alpha_max_(config.trace.alpha_max),
      full_(config.trace.logits == "full"),
      hidden_(config.trace.hidden),
      reference_(model.vocab_size, model.hidden_size, config.decode.block, false),
      scratch_([width = model.vocab_size] { return Scratch(width); }) {
  for (std::size_t p = 0; p < config.precisions.size(); ++p) {
    precisions_.emplace_back(model.vocab_size, model.hidden_size, config.decode.block, hidden_);
  }
}

void ColumnWriter::append(std::int64_t rows, schemas::TracePart& part) {
  const std::int64_t first = part.steps() - rows;
  if (static_cast<std::int64_t>(candidates_.size()) < rows)
    candidates_.resize(static_cast<std::size_t>(rows));
  grow(rows, part);
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, rows, 4), [&](const auto& range) {
    Scratch& scratch = scratch_.local();
    for (std::int64_t r = range.begin(); r != range.end(); ++r)
      write_row(r, first + r, part, scratch);
  });
  join_candidates(rows, part);
}

void ColumnWriter::grow(std::int64_t rows, schemas::TracePart& part) const {
  const auto n = static_cast<std::size_t>(part.steps());
  const auto top = static_cast<std::size_t>(top_);
  part.top = top_;
  schemas::ReferenceColumns& reference = part.reference;
  reference.lse.resize(n);
  reference.entropy.resize(n);
  reference.target_logit.resize(n);
  reference.top_ids.resize(n * top);
  reference.top_logits.resize(n * top);
  for (schemas::PrecisionColumns& c : part.columns) {
    c.lse.resize(n);
    c.entropy.resize(n);
    c.target_logit.resize(n);
    c.kl.resize(n);
    c.top_ids.resize(n * top);
    c.top_logits.resize(n * top);
    c.top_reference_logits.resize(n * top);
    c.top_reference_mass_before.resize(n * top);
  }
  if (full_) {
    const auto used = static_cast<std::ptrdiff_t>(rows * vocab_size_);
    const auto add = [used](std::vector<float>& to, const std::vector<float>& from) {
      to.insert(to.end(), from.begin(), from.begin() + used);
    };
    add(reference.logits, reference_.logits());
    for (std::size_t p = 0; p < part.columns.size(); ++p)
      add(part.columns[p].logits, precisions_[p].logits());
  }
  if (hidden_) {
    for (std::size_t p = 0; p < part.columns.size(); ++p) {
      const auto& from = precisions_[p].hidden();
      part.columns[p].hidden.insert(part.columns[p].hidden.end(), from.begin(), from.end());
    }
  }
}

void ColumnWriter::write_row(std::int64_t row, std::int64_t step, schemas::TracePart& part,
                             Scratch& scratch) {
  scratch.reference.assign(reference_.row(row));
  write_reference(row, step, part, scratch);
  for (std::size_t p = 0; p < precisions_.size(); ++p) write_precision(p, row, step, part, scratch);
}

void ColumnWriter::write_reference(std::int64_t row, std::int64_t step, schemas::TracePart& part,
                                   Scratch& scratch) {
  const statistics::ReferenceRow& reference = scratch.reference;
  const auto logits = reference.logits();
  schemas::ReferenceColumns& columns = part.reference;
  const auto s = static_cast<std::size_t>(step);
  columns.lse[s] = reference.lse();
  columns.entropy[s] = reference.entropy();
  columns.target_logit[s] = logits[static_cast<std::size_t>(part.step_target[s])];
  const auto order = reference.order();
  for (std::size_t k = 0; k < static_cast<std::size_t>(top_); ++k) {
    columns.top_ids[s * static_cast<std::size_t>(top_) + k] = order[k];
    columns.top_logits[s * static_cast<std::size_t>(top_) + k] =
        logits[static_cast<std::size_t>(order[k])];
  }
  RowCandidates& candidates = candidates_[static_cast<std::size_t>(row)];
  const auto count = static_cast<std::size_t>(reference.candidates(alpha_max_));
  candidates.ids.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  candidates.logits.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    candidates.logits[i] = logits[static_cast<std::size_t>(candidates.ids[i])];
  candidates.ranks.resize(precisions_.size());
  candidates.other_logits.resize(precisions_.size());
}

void ColumnWriter::write_precision(std::size_t p, std::int64_t row, std::int64_t step,
                                   schemas::TracePart& part, Scratch& scratch) {
  const auto logits = precisions_[p].row(row);
  const auto s = static_cast<std::size_t>(step);
  const runtime::RowStatistics statistics = runtime::row_statistics(logits);
  if (!statistics.valid) {
    throw base::FailedError("precision " + part.precisions[p].name + ": the logits at position " +
                            std::to_string(part.step_position[s]) + " of book " +
                            part.units.back().book +
                            " are not finite; nothing of this part was written");
  }
  schemas::PrecisionColumns& columns = part.columns[p];
  const statistics::ReferenceRow& reference = scratch.reference;
  columns.lse[s] = statistics.lse;
  columns.entropy[s] = statistics.entropy;
  columns.target_logit[s] = logits[static_cast<std::size_t>(part.step_target[s])];
  columns.kl[s] = static_cast<float>(reference.kl_to(logits, statistics.lse));

  const std::size_t first = s * static_cast<std::size_t>(top_);
  scratch.top.resize((runtime::top_k_scratch(vocab_size_, top_) + 7) / 8);
  runtime::top_k(logits, top_, &columns.top_ids[first], &columns.top_logits[first],
                 scratch.top.data());
  for (std::size_t k = first; k < first + static_cast<std::size_t>(top_); ++k) {
    columns.top_reference_logits[k] =
        reference.logits()[static_cast<std::size_t>(columns.top_ids[k])];
    columns.top_reference_mass_before[k] = reference.mass_before(columns.top_ids[k]);
  }

  RowCandidates& candidates = candidates_[static_cast<std::size_t>(row)];
  const std::size_t count = candidates.ids.size();
  candidates.ranks[p].resize(count);
  candidates.other_logits[p].resize(count);
  statistics::ranks_of(logits, candidates.ids, candidates.ranks[p].data(), scratch.ranks);
  for (std::size_t i = 0; i < count; ++i) {
    candidates.other_logits[p][i] = logits[static_cast<std::size_t>(candidates.ids[i])];
  }
}

void ColumnWriter::join_candidates(std::int64_t rows, schemas::TracePart& part) const {
  schemas::ReferenceColumns& reference = part.reference;
  if (reference.candidate_first.empty()) reference.candidate_first.push_back(0);
  const auto add = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const RowCandidates& candidates = candidates_[r];
    add(reference.candidate_ids, candidates.ids);
    add(reference.candidate_logits, candidates.logits);
    reference.candidate_first.push_back(static_cast<std::int64_t>(reference.candidate_ids.size()));
    for (std::size_t p = 0; p < part.columns.size(); ++p) {
      add(part.columns[p].candidate_ranks, candidates.ranks[p]);
      add(part.columns[p].candidate_logits, candidates.other_logits[p]);
    }
  }
}

}  // namespace dgap::collector
