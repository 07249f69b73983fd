#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "schemas/trace/index.hpp"
#include "schemas/trace/layout.hpp"
#include "schemas/trace/reader.hpp"

namespace dgap::schemas {
namespace {

/// The first root attribute in which two headers differ.
std::string difference(const TraceHeader& a, const TraceHeader& b) {
  std::vector<std::pair<std::string, std::string>> values;
  trace::for_each_text_attribute(
      a, [&](const char* name, const std::string& v) { values.emplace_back(name, v); });
  std::string found;
  std::size_t i = 0;
  trace::for_each_text_attribute(b, [&](const char* name, const std::string& v) {
    if (found.empty() && values[i].second != v)
      found = std::string(name) + ": " + values[i].second + " and " + v;
    ++i;
  });
  return found.empty() ? "vocab_size or hidden_size" : found;
}

template <class T>
void append_rows(std::vector<T>& to, const std::vector<T>& from, std::int64_t first,
                 std::int64_t end, std::int64_t width = 1) {
  if (from.empty()) return;
  to.insert(to.end(), from.begin() + first * width, from.begin() + end * width);
}

/// Steps [first, end) of `from` after those of `to`.
void append_steps(TracePart& to, const TracePart& from, std::int64_t first, std::int64_t end) {
  const std::int64_t top = from.top, vocab = from.header.vocab_size,
                     hidden = from.header.hidden_size;
  append_rows(to.step_position, from.step_position, first, end);
  append_rows(to.step_target, from.step_target, first, end);
  ReferenceColumns& r = to.reference;
  const ReferenceColumns& s = from.reference;
  append_rows(r.lse, s.lse, first, end);
  append_rows(r.entropy, s.entropy, first, end);
  append_rows(r.target_logit, s.target_logit, first, end);
  append_rows(r.top_ids, s.top_ids, first, end, top);
  append_rows(r.top_logits, s.top_logits, first, end, top);
  append_rows(r.logits, s.logits, first, end, vocab);
  std::int64_t first_candidate = 0, end_candidate = 0;
  if (!s.candidate_first.empty()) {
    first_candidate = s.candidate_first[first], end_candidate = s.candidate_first[end];
    if (r.candidate_first.empty()) r.candidate_first.push_back(0);
    const std::int64_t shift = r.candidate_first.back() - first_candidate;
    for (std::int64_t t = first; t < end; ++t)
      r.candidate_first.push_back(s.candidate_first[t + 1] + shift);
    append_rows(r.candidate_ids, s.candidate_ids, first_candidate, end_candidate);
    append_rows(r.candidate_logits, s.candidate_logits, first_candidate, end_candidate);
  }
  for (std::size_t p = 0; p < from.columns.size(); ++p) {
    PrecisionColumns& c = to.columns[p];
    const PrecisionColumns& d = from.columns[p];
    append_rows(c.lse, d.lse, first, end);
    append_rows(c.entropy, d.entropy, first, end);
    append_rows(c.target_logit, d.target_logit, first, end);
    append_rows(c.served_lse, d.served_lse, first, end);
    append_rows(c.served_entropy, d.served_entropy, first, end);
    append_rows(c.kl, d.kl, first, end);
    append_rows(c.top_ids, d.top_ids, first, end, top);
    append_rows(c.top_logits, d.top_logits, first, end, top);
    append_rows(c.top_reference_logits, d.top_reference_logits, first, end, top);
    append_rows(c.top_reference_mass_before, d.top_reference_mass_before, first, end, top);
    append_rows(c.candidate_ranks, d.candidate_ranks, first_candidate, end_candidate);
    append_rows(c.candidate_logits, d.candidate_logits, first_candidate, end_candidate);
    append_rows(c.hidden, d.hidden, first, end, hidden);
    append_rows(c.logits, d.logits, first, end, vocab);
  }
}

template <class F>
void for_each_number(PrecisionInfo& info, F f) {
  trace::for_each_number_attribute(info, [&](const char*, double& value) { f(value); });
}

/// Units of `split` of `from` after those of `to`; bits per element are kept as sums over units.
void append_units(TracePart& to, const TracePart& from, std::string_view split) {
  for (const TraceUnit& unit : from.units) {
    if (!split.empty() && unit.split != split) continue;
    TraceUnit moved = unit;
    moved.first_step = to.steps();
    moved.first_token = static_cast<std::int64_t>(to.tokens.size());
    append_rows(to.tokens, from.tokens, unit.first_token,
                unit.first_token + unit.context + unit.steps);
    append_steps(to, from, unit.first_step, unit.first_step + unit.steps);
    to.step_unit.resize(to.step_unit.size() + unit.steps,
                        static_cast<std::int32_t>(to.units.size()));
    to.units.push_back(std::move(moved));
    for (std::size_t p = 0; p < from.precisions.size(); ++p) {
      PrecisionInfo share = from.precisions[p];
      std::vector<double> values;
      for_each_number(share, [&](double value) { values.push_back(value); });
      std::size_t i = 0;
      for_each_number(to.precisions[p], [&](double& sum) { sum += values[i++]; });
    }
  }
}

/// Which of the columns that parts may lack this one has.
std::vector<bool> optional_columns(const TracePart& part) {
  std::vector<bool> present{!part.reference.logits.empty()};
  for (const PrecisionColumns& c : part.columns) {
    present.insert(present.end(), {!c.served_lse.empty(), !c.served_entropy.empty(),
                                   !c.hidden.empty(), !c.logits.empty()});
  }
  return present;
}

TracePart empty_like(const TracePart& part) {
  TracePart empty;
  empty.header = part.header;
  empty.config_yaml = part.config_yaml;
  empty.top = part.top;
  empty.precisions = part.precisions;
  for (PrecisionInfo& info : empty.precisions)
    for_each_number(info, [](double& value) { value = 0.0; });
  empty.columns.resize(part.columns.size());
  return empty;
}

}  // namespace

TraceSet::TraceSet(const std::filesystem::path& directory) : directory_(directory) {
  std::vector<std::string> schemes;
  for (const trace::IndexEntry& entry : trace::read_index(directory)) {
    const std::filesystem::path path = directory / entry.file;
    trace::PartSummary summary = trace::read_summary(path);
    if (summary.steps != entry.steps) {
      throw base::IoError(path.string() + ": has " + std::to_string(summary.steps) +
                          " steps, its index says " + std::to_string(entry.steps));
    }
    if (parts_.empty()) {
      header_ = summary.header, precisions_ = summary.precisions, schemes = summary.schemes;
    } else if (summary.header != header_) {
      throw base::IoError(path.string() + ": is of another run than " +
                          parts_.front().path.filename().string() + " (" +
                          difference(header_, summary.header) + ")");
    } else if (summary.precisions != precisions_ || summary.schemes != schemes) {
      throw base::IoError(path.string() + ": has other precisions than " +
                          parts_.front().path.filename().string());
    }
    steps_ += summary.steps;
    parts_.push_back({path, entry.sha256, std::move(summary.unit_splits),
                      std::move(summary.unit_sources), std::move(summary.unit_books)});
  }
}

bool TraceSet::holds(std::size_t part, std::string_view split) const {
  const std::vector<std::string>& splits = parts_.at(part).unit_splits;
  return std::find(splits.begin(), splits.end(), split) != splits.end();
}

std::int64_t TraceSet::books(std::string_view split) const {
  std::set<std::pair<std::string_view, std::string_view>> books;
  for (const Part& part : parts_) {
    for (std::size_t u = 0; u < part.unit_splits.size(); ++u) {
      if (part.unit_splits[u] == split) books.emplace(part.unit_sources[u], part.unit_books[u]);
    }
  }
  return static_cast<std::int64_t>(books.size());
}

TracePart TraceSet::read(std::size_t part, const TraceSelection& selection) const {
  const Part& wanted = parts_.at(part);
  const std::string actual = base::sha256_of_file(wanted.path);
  if (actual != wanted.sha256) {
    throw base::IoError(wanted.path.string() + ": has been altered: SHA-256 " + actual +
                        ", its index says " + wanted.sha256);
  }
  return read_trace_part(wanted.path, selection);
}

TracePart TraceSet::read_split(std::string_view split, const TraceSelection& selection) const {
  TracePart all;
  std::vector<bool> columns;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!split.empty() && !holds(i, split)) continue;
    const TracePart part = read(i, selection);
    if (all.units.empty()) all = empty_like(part), columns = optional_columns(part);
    if (part.top != all.top)
      throw base::IoError(parts_[i].path.string() + ": reference/top/ids: has another M");
    if (optional_columns(part) != columns) {
      throw base::IoError(
          parts_[i].path.string() +
          ": has not the same columns as the parts before (served, hidden, logits); "
          "collect the traces again");
    }
    append_units(all, part, split);
  }
  if (all.units.empty()) {
    throw base::FailedError(directory_.string() + ": has no units of split \"" +
                            std::string(split) + "\"; collect some (corpus.sites_per_book)");
  }
  for (PrecisionInfo& info : all.precisions) {
    for_each_number(info, [&](double& value) { value /= static_cast<double>(all.units.size()); });
  }
  return all;
}

}  // namespace dgap::schemas
