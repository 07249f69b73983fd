#include "statistics/columns.hpp"

#include <limits>

#include "base/error.hpp"
#include "runtime/row_scan.hpp"
#include "statistics/exact_row.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::statistics {
namespace {

using Row = std::span<const float>;

Row row_of(const std::vector<float>& logits, std::int64_t step, std::int64_t vocab) {
  return Row(logits).subspan(step * vocab, vocab);
}

/// Scratch of one pass over a part.
struct Scratch {
  Scratch(std::int64_t vocab, std::int64_t top) : scan(vocab, top) {}
  RowOrder ranks;
  runtime::RowScan scan;
};

void append_reference(const ReferenceRow& row, std::int32_t target, std::int64_t top,
                      schemas::ReferenceColumns& columns) {
  columns.lse.push_back(row.lse());
  columns.entropy.push_back(row.entropy());
  columns.target_logit.push_back(row.logits()[target]);
  for (std::int64_t i = 0; i < top; ++i) {
    columns.top_ids.push_back(row.order()[i]);
    columns.top_logits.push_back(row.logits()[row.order()[i]]);
  }
  for (const std::int32_t id : row.candidates()) {
    columns.candidate_ids.push_back(id);
    columns.candidate_logits.push_back(row.logits()[id]);
  }
  columns.candidate_first.push_back(static_cast<std::int64_t>(columns.candidate_ids.size()));
}

/// The first `top` tokens in order: those of logit -inf come after all others, by id.
void append_top(Row logits, std::int64_t top, runtime::RowScan& scan,
                schemas::PrecisionColumns& columns) {
  const std::size_t first = columns.top_ids.size();
  columns.top_ids.resize(first + top);
  columns.top_logits.resize(first + top);
  std::int32_t* const ids = columns.top_ids.data() + first;
  float* const values = columns.top_logits.data() + first;
  std::int64_t found = scan.top(ids, values);
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  for (std::int32_t id = 0; found < top; ++id) {
    if (logits[id] != kMasked) continue;
    ids[found] = id;
    values[found++] = kMasked;
  }
}

void append_precision(ReferenceRow& reference, std::span<const std::int32_t> candidates, Row logits,
                      std::int32_t target, std::int64_t top, Scratch& scratch,
                      schemas::PrecisionColumns& columns) {
  const ExactRow exact = exact_row(logits);
  const runtime::RowStatistics served = scratch.scan.assign(logits);
  columns.lse.push_back(exact.lse);
  columns.entropy.push_back(exact.entropy);
  columns.served_lse.push_back(served.lse);
  columns.served_entropy.push_back(served.entropy);
  columns.target_logit.push_back(logits[target]);
  columns.kl.push_back(static_cast<float>(reference.kl_to(logits, exact.lse)));

  append_top(logits, top, scratch.scan, columns);
  const auto ids = std::span(columns.top_ids).last(top);
  for (const std::int32_t id : ids) {
    columns.top_reference_logits.push_back(reference.logits()[id]);
  }
  columns.top_reference_mass_before.resize(columns.top_ids.size());
  reference.masses_before(ids, std::span(columns.top_reference_mass_before).last(top).data());

  const std::size_t before = columns.candidate_ranks.size();
  columns.candidate_ranks.resize(before + candidates.size());
  ranks_of(logits, candidates, columns.candidate_ranks.data() + before, scratch.ranks);
  for (const std::int32_t id : candidates) columns.candidate_logits.push_back(logits[id]);
}

}  // namespace

void recompute_columns(schemas::TracePart& part, double alpha_max) {
  const std::int64_t vocab = part.header.vocab_size;
  const auto holds_logits = [&](const std::vector<float>& logits) {
    return static_cast<std::int64_t>(logits.size()) == part.steps() * vocab;
  };
  bool full = holds_logits(part.reference.logits);
  for (const schemas::PrecisionColumns& columns : part.columns)
    full &= holds_logits(columns.logits);
  if (!full)
    throw base::FailedError("the trace holds no full logits; collect with trace.logits: full");

  schemas::ReferenceColumns reference;
  reference.candidate_first.push_back(0);
  std::vector<schemas::PrecisionColumns> precisions(part.columns.size());
  ReferenceRow row(vocab, part.top, alpha_max);
  Scratch scratch(vocab, part.top);
  for (std::int64_t step = 0; step < part.steps(); ++step) {
    const std::int32_t target = part.step_target[step];
    row.assign(row_of(part.reference.logits, step, vocab));
    append_reference(row, target, part.top, reference);
    for (std::size_t p = 0; p < precisions.size(); ++p) {
      append_precision(row, row.candidates(), row_of(part.columns[p].logits, step, vocab), target,
                       part.top, scratch, precisions[p]);
    }
  }
  reference.logits = std::move(part.reference.logits);
  part.reference = std::move(reference);
  for (std::size_t p = 0; p < precisions.size(); ++p) {
    precisions[p].hidden = std::move(part.columns[p].hidden);
    precisions[p].logits = std::move(part.columns[p].logits);
    part.columns[p] = std::move(precisions[p]);
  }
}

}  // namespace dgap::statistics
