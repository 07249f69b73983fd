#pragma once
#include <cstdint>

#include "schemas/trace/trace.hpp"

/// Which datasets a trace has: said once, for the writer and the reader. Private to schemas/trace/.
namespace dgap::schemas::trace {

inline constexpr const char* kFormat = "dgap-trace";
inline constexpr int kMajor = 1;
inline constexpr const char* kVersion = "1.0";

/// The sizes that datasets share.
struct Extents {
  std::int64_t units = 0, tokens = 0, steps = 0;
  std::int64_t top = 0, candidates = 0;  // M; all candidates of all steps
  std::int64_t hidden = 0, vocab = 0;
};

/// What a reader may leave out, or a trace may lack.
enum class Content { always, candidates, served, hidden, logits };

/// One dataset: `rows`, or `rows` x `width` where width > 0.
struct Dataset {
  const char* name;
  std::int64_t rows, width;
  const char* units;
  const char* long_name;
  Content content = Content::always;
};

/// Calls visit(Dataset, column) for every column of the reference.
template <class Columns, class Visit>
void for_each_reference(Columns& c, const Extents& e, Visit visit) {
  using enum Content;
  visit(Dataset{"lse", e.steps, 0, "nat", "log-sum-exp of the logits"}, c.lse);
  visit(Dataset{"entropy", e.steps, 0, "nat", "entropy of the next-token distribution"}, c.entropy);
  visit(Dataset{"target_logit", e.steps, 0, "1", "logit of the target token"}, c.target_logit);
  visit(Dataset{"top/ids", e.steps, e.top, "1",
                "ids of the M largest logits, by (logit descending, id ascending)"},
        c.top_ids);
  visit(Dataset{"top/logits", e.steps, e.top, "1", "the M largest logits"}, c.top_logits);
  visit(Dataset{"candidates/first", e.steps + 1, 0, "1",
                "step t owns [first[t], first[t+1]) of the candidates", candidates},
        c.candidate_first);
  visit(Dataset{"candidates/ids", e.candidates, 0, "1",
                "ids of C(alpha_max): mass before < alpha_max, by (logit descending, id ascending)",
                candidates},
        c.candidate_ids);
  visit(Dataset{"candidates/logits", e.candidates, 0, "1", "logits of the candidates", candidates},
        c.candidate_logits);
  visit(Dataset{"logits", e.steps, e.vocab, "1", "all logits", logits}, c.logits);
}

/// The same for one precision.
template <class Columns, class Visit>
void for_each_precision(Columns& c, const Extents& e, Visit visit) {
  using enum Content;
  visit(Dataset{"lse", e.steps, 0, "nat", "log-sum-exp of the logits"}, c.lse);
  visit(Dataset{"entropy", e.steps, 0, "nat", "entropy of the next-token distribution"}, c.entropy);
  visit(Dataset{"target_logit", e.steps, 0, "1", "logit of the target token"}, c.target_logit);
  visit(Dataset{"served/lse", e.steps, 0, "nat", "log-sum-exp of the logits as the runtime has it",
                served},
        c.served_lse);
  visit(Dataset{"served/entropy", e.steps, 0, "nat", "entropy as the runtime has it", served},
        c.served_entropy);
  visit(Dataset{"kl", e.steps, 0, "nat", "KL(reference || this), full vocabulary"}, c.kl);
  visit(Dataset{"top/ids", e.steps, e.top, "1",
                "ids of the M largest logits, by (logit descending, id ascending)"},
        c.top_ids);
  visit(Dataset{"top/logits", e.steps, e.top, "1", "the M largest logits"}, c.top_logits);
  visit(Dataset{"top/reference_logits", e.steps, e.top, "1", "the reference's logits of top/ids"},
        c.top_reference_logits);
  visit(Dataset{"top/reference_mass_before", e.steps, e.top, "1",
                "the reference's probability mass strictly before each of top/ids, in the "
                "reference's order"},
        c.top_reference_mass_before);
  visit(Dataset{"candidates/ranks", e.candidates, 0, "1",
                "0-based ranks of the reference's candidates in this decode's order", candidates},
        c.candidate_ranks);
  visit(Dataset{"candidates/logits", e.candidates, 0, "1",
                "this decode's logits of the reference's candidates", candidates},
        c.candidate_logits);
  visit(Dataset{"hidden", e.steps, e.hidden, "1", "hidden states after the final norm", hidden},
        c.hidden);
  visit(Dataset{"logits", e.steps, e.vocab, "1", "all logits", logits}, c.logits);
}

/// The same for /steps.
template <class Part, class Visit>
void for_each_step_column(Part& p, const Extents& e, Visit visit) {
  visit(Dataset{"unit", e.steps, 0, "1", "row of /units"}, p.step_unit);
  visit(Dataset{"position", e.steps, 0, "token", "position of the consumed token in the unit"},
        p.step_position);
  visit(Dataset{"target", e.steps, 0, "1", "id of the token that is predicted"}, p.step_target);
}

/// /units as columns.
struct UnitColumns {
  std::vector<std::string> book, source, domain, split, text_sha256;
  std::vector<std::int32_t> context, steps;
  std::vector<std::int64_t> start, first_step, first_token;
};

template <class Columns, class Visit>
void for_each_unit_column(Columns& c, const Extents& e, Visit visit) {
  visit(Dataset{"book", e.units, 0, "1", "name of the book"}, c.book);
  visit(Dataset{"source", e.units, 0, "1", "source of the book"}, c.source);
  visit(Dataset{"domain", e.units, 0, "1", "domain of the source"}, c.domain);
  visit(Dataset{"split", e.units, 0, "1", "train, validation or test"}, c.split);
  visit(Dataset{"context", e.units, 0, "token", "length of the prefix, BOS included"}, c.context);
  visit(Dataset{"start", e.units, 0, "token", "first token of the prefix in the book"}, c.start);
  visit(Dataset{"steps", e.units, 0, "1", "number of steps"}, c.steps);
  visit(Dataset{"first_step", e.units, 0, "1", "first row of the step columns"}, c.first_step);
  visit(Dataset{"first_token", e.units, 0, "1", "offset of the unit's ids in /tokens"},
        c.first_token);
  visit(Dataset{"text_sha256", e.units, 0, "1", "SHA-256 of the book's text"}, c.text_sha256);
}

inline UnitColumns to_columns(const std::vector<TraceUnit>& units) {
  UnitColumns c;
  for (const TraceUnit& u : units) {
    c.book.push_back(u.book), c.source.push_back(u.source), c.domain.push_back(u.domain);
    c.split.push_back(u.split), c.text_sha256.push_back(u.text_sha256);
    c.context.push_back(u.context), c.steps.push_back(u.steps), c.start.push_back(u.start);
    c.first_step.push_back(u.first_step), c.first_token.push_back(u.first_token);
  }
  return c;
}

inline std::vector<TraceUnit> from_columns(UnitColumns&& c) {
  std::vector<TraceUnit> units(c.book.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i] = {std::move(c.book[i]),
                std::move(c.source[i]),
                std::move(c.domain[i]),
                std::move(c.split[i]),
                c.context[i],
                c.start[i],
                c.steps[i],
                c.first_step[i],
                c.first_token[i],
                std::move(c.text_sha256[i])};
  }
  return units;
}

/// Root attributes that are text.
template <class Header, class Visit>
void for_each_text_attribute(Header& h, Visit visit) {
  visit("producer", h.producer);
  visit("producer_commit", h.producer_commit);
  visit("run_id", h.run_id);
  visit("model_sha256", h.model_sha256);
  visit("tokenizer_sha256", h.tokenizer_sha256);
  visit("compute", h.compute);
  visit("cpu_isa", h.cpu_isa);
  visit("decode_mode", h.decode_mode);
}

/// Attributes of a precision that are numbers.
template <class Info, class Visit>
void for_each_number_attribute(Info& i, Visit visit) {
  visit("bits_per_element_key", i.bits_per_element_key);
  visit("bits_per_element_value", i.bits_per_element_value);
  visit("total_bits_per_element_key", i.total_bits_per_element_key);
  visit("total_bits_per_element_value", i.total_bits_per_element_value);
}

/// What readers rely on: columns of one length, ragged bounds, ids in [0, V), finite numbers,
/// descending tops, ranks in [0, V). The empty string, or "dataset: what is wrong". Columns
/// that were not read are left out.
std::string problem_of(const TracePart& part);

}  // namespace dgap::schemas::trace
