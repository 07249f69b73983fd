#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "schemas/trace/layout.hpp"

namespace dgap::schemas::trace {
namespace {

/// Throws itself out of the checks; never leaves this file.
struct Problem {
  std::string text;
};

[[noreturn]] void refuse(const std::string& dataset, const std::string& what) {
  throw Problem{dataset + ": " + what};
}

std::string row(std::int64_t i) { return "row " + std::to_string(i) + ": "; }

template <class T>
void check_length(const std::string& name, const std::vector<T>& column, std::int64_t expected) {
  if (static_cast<std::int64_t>(column.size()) != expected) {
    refuse(name, "has " + std::to_string(column.size()) + " values, expected " +
                     std::to_string(expected));
  }
}

template <class T>
void check_range(const std::string& name, const std::vector<T>& column, T low, T end) {
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column[i] < low || column[i] >= end) {
      refuse(name, "value " + std::to_string(i) + " is " + std::to_string(column[i]) +
                       ", outside [" + std::to_string(low) + ", " + std::to_string(end) + ")");
    }
  }
}

template <class T>
void check_finite(const std::string& name, const std::vector<T>& column) {
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (!std::isfinite(column[i])) {
      refuse(name, "value " + std::to_string(i) + " is " + base::number(column[i]));
    }
  }
}

void check_finite(const std::string& name, const std::vector<std::uint16_t>& halves) {
  for (std::size_t i = 0; i < halves.size(); ++i) {
    if ((halves[i] & 0x7c00u) == 0x7c00u)
      refuse(name, "value " + std::to_string(i) + " is not finite");
  }
}

/// (logit descending, id ascending), strictly: so ids are distinct too.
void check_order(const std::string& name, const std::int32_t* ids, const float* logits,
                 std::int64_t first, std::int64_t end) {
  for (std::int64_t i = first + 1; i < end; ++i) {
    const bool ordered =
        logits[i - 1] > logits[i] || (logits[i - 1] == logits[i] && ids[i - 1] < ids[i]);
    if (!ordered)
      refuse(name,
             "value " + std::to_string(i) + " is out of order (logit descending, id ascending)");
  }
}

void check_top(const std::string& name, const std::vector<std::int32_t>& ids,
               const std::vector<float>& logits, const TracePart& part) {
  check_range<std::int32_t>(name + "/ids", ids, 0,
                            static_cast<std::int32_t>(part.header.vocab_size));
  for (std::int64_t t = 0; t < part.steps(); ++t) {
    check_order(name, ids.data(), logits.data(), t * part.top, (t + 1) * part.top);
  }
}

void check_header(const TracePart& part) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const TraceHeader& h = part.header;
  if (h.vocab_size <= 0 || h.vocab_size > kLargest) {
    refuse("vocab_size", "is " + std::to_string(h.vocab_size) + ", outside [1, 2^31)");
  }
  if (h.hidden_size <= 0 || h.hidden_size > kLargest) {
    refuse("hidden_size", "is " + std::to_string(h.hidden_size) + ", outside [1, 2^31)");
  }
  if (part.top <= 0 || part.top > h.vocab_size) {
    refuse("reference/top/ids",
           "has rows of " + std::to_string(part.top) + ", outside [1, vocab_size]");
  }
  if (part.columns.size() != part.precisions.size())
    refuse("precisions", "columns and descriptions differ in number");
  for (const PrecisionInfo& p : part.precisions) {
    for_each_number_attribute(p, [&](const char* name, double bits) {
      if (!std::isfinite(bits) || bits < 0.0)
        refuse("precisions/" + p.name, std::string(name) + " is not a size");
    });
  }
}

/// Units follow one another in /steps and /tokens without gaps.
void check_units(const TracePart& part) {
  std::int64_t steps = 0, tokens = 0;
  for (std::size_t i = 0; i < part.units.size(); ++i) {
    const TraceUnit& u = part.units[i];
    const std::string where = row(static_cast<std::int64_t>(i));
    if (u.context < 1)
      refuse("units/context", where + std::to_string(u.context) + " is not positive");
    if (u.steps < 1) refuse("units/steps", where + std::to_string(u.steps) + " is not positive");
    if (u.start < 0) refuse("units/start", where + std::to_string(u.start) + " is negative");
    if (u.first_step != steps)
      refuse("units/first_step", where + "expected " + std::to_string(steps));
    if (u.first_token != tokens)
      refuse("units/first_token", where + "expected " + std::to_string(tokens));
    steps += u.steps;
    tokens += std::int64_t{u.context} + u.steps;
  }
  check_length("steps/unit", part.step_unit, steps);
  check_length("tokens", part.tokens, tokens);
}

/// Step t of a unit consumes token context - 1 + t and predicts the next one.
void check_steps(const TracePart& part) {
  const std::int64_t n = part.steps();
  check_length("steps/position", part.step_position, n);
  check_length("steps/target", part.step_target, n);
  check_range<std::int32_t>("tokens", part.tokens, 0,
                            static_cast<std::int32_t>(part.header.vocab_size));
  for (std::size_t i = 0; i < part.units.size(); ++i) {
    const TraceUnit& u = part.units[i];
    for (std::int64_t t = 0; t < u.steps; ++t) {
      const std::int64_t step = u.first_step + t, position = u.context - 1 + t;
      if (part.step_unit[step] != static_cast<std::int32_t>(i)) {
        refuse("steps/unit", row(step) + "expected unit " + std::to_string(i));
      }
      if (part.step_position[step] != position) {
        refuse("steps/position",
               row(step) + "expected " + std::to_string(position) + " (context - 1 + step)");
      }
      if (part.step_target[step] != part.tokens[u.first_token + position + 1]) {
        refuse("steps/target", row(step) + "is not the unit's next token");
      }
    }
  }
}

void check_reference(const TracePart& part, const Extents& e) {
  const ReferenceColumns& r = part.reference;
  for_each_reference(r, e, [&](const Dataset& d, const auto& column) {
    if (column.empty() && d.content != Content::always) return;
    check_length(std::string("reference/") + d.name, column,
                 d.rows * std::max<std::int64_t>(d.width, 1));
    using Value = typename std::decay_t<decltype(column)>::value_type;
    if constexpr (std::is_floating_point_v<Value>)
      check_finite(std::string("reference/") + d.name, column);
  });
  check_top("reference/top", r.top_ids, r.top_logits, part);
  if (r.candidate_first.empty()) {
    if (!r.candidate_ids.empty()) refuse("reference/candidates/first", "is missing");
    return;
  }
  if (r.candidate_first.front() != 0 || r.candidate_first.back() != e.candidates) {
    refuse("reference/candidates/first", "does not run from 0 to " + std::to_string(e.candidates));
  }
  for (std::int64_t t = 0; t < e.steps; ++t) {
    if (r.candidate_first[t] > r.candidate_first[t + 1]) {
      refuse("reference/candidates/first", row(t + 1) + "is smaller than the one before");
    }
  }
  check_range<std::int32_t>("reference/candidates/ids", r.candidate_ids, 0,
                            static_cast<std::int32_t>(e.vocab));
  check_length("reference/candidates/logits", r.candidate_logits, e.candidates);
  for (std::int64_t t = 0; t < e.steps; ++t) {
    check_order("reference/candidates", r.candidate_ids.data(), r.candidate_logits.data(),
                r.candidate_first[t], r.candidate_first[t + 1]);
  }
}

void check_precision(const TracePart& part, const Extents& e, std::size_t index) {
  const PrecisionColumns& c = part.columns[index];
  const std::string group = "precisions/" + part.precisions[index].name + "/";
  const bool has_candidates = !part.reference.candidate_first.empty();
  for_each_precision(c, e, [&](const Dataset& d, const auto& column) {
    const bool required =
        d.content == Content::always || (d.content == Content::candidates && has_candidates);
    if (column.empty() && !required) return;
    check_length(group + d.name, column, d.rows * std::max<std::int64_t>(d.width, 1));
    using Value = typename std::decay_t<decltype(column)>::value_type;
    if constexpr (!std::is_same_v<Value, std::int32_t>) check_finite(group + d.name, column);
  });
  check_top(group + "top", c.top_ids, c.top_logits, part);
  check_range<double>(group + "top/reference_mass_before", c.top_reference_mass_before, 0.0,
                      1.0 + 1e-6);
  check_range<std::int32_t>(group + "candidates/ranks", c.candidate_ranks, 0,
                            static_cast<std::int32_t>(e.vocab));
}

}  // namespace

std::string problem_of(const TracePart& part) {
  try {
    check_header(part);
    check_units(part);
    check_steps(part);
    const Extents extents{static_cast<std::int64_t>(part.units.size()),
                          static_cast<std::int64_t>(part.tokens.size()),
                          part.steps(),
                          part.top,
                          static_cast<std::int64_t>(part.reference.candidate_ids.size()),
                          part.header.hidden_size,
                          part.header.vocab_size};
    check_reference(part, extents);
    for (std::size_t i = 0; i < part.precisions.size(); ++i) check_precision(part, extents, i);
    return {};
  } catch (const Problem& problem) {
    return problem.text;
  }
}

}  // namespace dgap::schemas::trace
