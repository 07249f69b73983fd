#include "collector/trace_size.hpp"

#include <algorithm>

namespace dgap::collector {
namespace {

// Flat distributions of small models hold some hundred candidates a step; measured on SmolLM2-135M
// and books, as are the bytes that deflate leaves of 100.
constexpr double kCandidates = 400.0;
constexpr double kCompressed = 0.65;

double bytes_per_step(const schemas::Config& config, const BlockShape& shape) {
  const double top = shape.top, logits = shape.full ? 4.0 * static_cast<double>(shape.vocab) : 0.0;
  const double hidden = shape.hidden ? 2.0 * static_cast<double>(shape.hidden_size) : 0.0;
  const double reference = 12.0 + 16.0 + 8.0 + 8.0 * top + 8.0 * kCandidates + logits;
  const double precision = 20.0 + 20.0 * top + 8.0 * kCandidates + hidden + logits;
  return reference + static_cast<double>(config.precisions.size()) * precision;
}

}  // namespace

double trace_bytes_per_step(const schemas::Config& config, const BlockShape& shape) {
  return kCompressed * bytes_per_step(config, shape);
}

double part_bytes(const schemas::Config& config, const BlockShape& shape) {
  const auto units = std::max<std::int64_t>(config.trace.units_per_part,
                                            std::ssize(config.corpus.context_lengths));
  // It lies there whole, and twice more, compressed, while it is written.
  return (1.0 + 2.0 * kCompressed) * bytes_per_step(config, shape) *
         static_cast<double>(units * config.corpus.decode_steps);
}

}  // namespace dgap::collector
