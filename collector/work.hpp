#pragma once
#include <algorithm>
#include <cstdint>

namespace dgap::collector {

/// Rows that pass through a model, and the tokens that they attend to, summed over them: what the
/// time of a decode grows with.
struct Work {
  double rows = 0, attended = 0;
  Work& operator+=(const Work& other) {
    rows += other.rows;
    attended += other.attended;
    return *this;
  }
};

/// `rows` rows from position `first` on.
inline Work rows_from(std::int64_t first, std::int64_t rows) {
  const auto n = static_cast<double>(rows);
  return {n, n * (static_cast<double>(first) + (n + 1) / 2)};
}

/// Seconds of work: so many a row, and so many a token that a row attends to.
struct Rate {
  double per_row = 0, per_attended = 0;
  double seconds(const Work& work) const {
    return per_row * work.rows + per_attended * work.attended;
  }
};

/// The rate that gives the seconds of both works, the second with more attended tokens a row. What
/// noise would make negative is zero; the second is exact even then.
inline Rate rate_through(const Work& first, double first_seconds, const Work& second,
                         double second_seconds) {
  const double mean_first = first.attended / first.rows, a = first_seconds / first.rows;
  const double mean_second = second.attended / second.rows, b = second_seconds / second.rows;
  const double slope = std::clamp((b - a) / (mean_second - mean_first), 0.0, b / mean_second);
  return {b - slope * mean_second, slope};
}

}  // namespace dgap::collector
