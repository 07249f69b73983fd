#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Trace files, `dgap-trace` 1.0 (schemas/trace/trace-format.md): what one paired decode leaves
/// behind, in HDF5. In memory a trace is columns, as in the file.
namespace dgap::schemas {

/// Root attributes. Parts may be read together only when all of these are equal.
struct TraceHeader {
  std::string producer, producer_commit, run_id, model_sha256, tokenizer_sha256;
  std::int64_t vocab_size = 0, hidden_size = 0;
  std::string compute, cpu_isa, decode_mode;
  bool operator==(const TraceHeader&) const = default;
};

/// One (book, site): `context` prefix tokens and `steps` targets, ids in TraceUnits::tokens.
struct TraceUnit {
  std::string book, source, domain, split;
  std::int32_t context = 0;
  std::int64_t start = 0;  // first token of the prefix, in tokens of the book
  std::int32_t steps = 0;
  std::int64_t first_step = 0;   // row in the step columns
  std::int64_t first_token = 0;  // offset in `tokens`
  std::string text_sha256;       // of the book's text
};

/// Columns of the reference decode, N steps. Ragged candidates: step t owns
/// [first[t], first[t+1]) of candidate_ids / candidate_logits, in the reference's order
/// (logit descending, id ascending): C_t(alpha_max), arXiv:2607.16248 Eq. 3.
struct ReferenceColumns {
  std::vector<double> lse;
  std::vector<float> entropy, target_logit;
  std::vector<std::int32_t> top_ids;          // [N, M]
  std::vector<float> top_logits;              // [N, M]
  std::vector<std::int64_t> candidate_first;  // [N + 1]
  std::vector<std::int32_t> candidate_ids;
  std::vector<float> candidate_logits;
  std::vector<float> logits;  // [N, V], full traces only
};

/// Columns of one quantised decode.
struct PrecisionColumns {
  std::vector<double> lse;
  std::vector<float> entropy, target_logit;
  std::vector<double> served_lse;     // as runtime::RowScan has them: of what features are made
  std::vector<float> served_entropy;  // where both are empty (older traces), of the exact ones
  std::vector<float> kl;              // KL(reference || this), nats, full vocabulary, summed in f64
  std::vector<std::int32_t> top_ids;  // [N, M] in this decode's order
  std::vector<float> top_logits;      // [N, M]
  std::vector<float> top_reference_logits;        // [N, M]
  std::vector<double> top_reference_mass_before;  // [N, M]
  std::vector<std::int32_t> candidate_ranks;      // aligned with ReferenceColumns::candidate_ids
  std::vector<float> candidate_logits;
  std::vector<std::uint16_t> hidden;  // [N, d] binary16, optional
  std::vector<float> logits;          // [N, V], full traces only
};

struct PrecisionInfo {
  std::string name;
  std::string scheme_json;
  double bits_per_element_key = 0,
         bits_per_element_value = 0;  // codes and scales, from allocated bytes
  // Everything (residual window, sinks, centring statistics) at the unit's full length, mean over
  // units.
  double total_bits_per_element_key = 0, total_bits_per_element_value = 0;
};

/// One part, whole, in memory: what the collector writes and readers get.
struct TracePart {
  TraceHeader header;
  std::string config_yaml;
  std::int32_t top = 0;  // M
  std::vector<TraceUnit> units;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> step_unit, step_position,
      step_target;  // [N]; position of the consumed token
  ReferenceColumns reference;
  std::vector<PrecisionInfo> precisions;
  std::vector<PrecisionColumns> columns;  // same order as `precisions`

  std::int64_t steps() const { return static_cast<std::int64_t>(step_unit.size()); }
  /// The tokens that the decode has seen when it gives the logits of `step`: the prefix and the
  /// targets of the steps before.
  std::span<const std::int32_t> context_of(std::int64_t step) const {
    const TraceUnit& unit = units[step_unit[step]];
    return std::span(tokens).subspan(unit.first_token, unit.context + (step - unit.first_step));
  }
};

/// Writes `part` as `<path>.partial` (created exclusively), closes, syncs and renames it. Never
/// opens or replaces an existing file: IoError when `path` or `<path>.partial` is there already.
/// FailedError for a part that read_trace_part would refuse.
void write_trace_part(const std::filesystem::path& path, const TracePart& part);

/// What to read: columns that are not asked for stay empty, and so do `logits` and `hidden` where
/// the trace has none.
struct TraceSelection {
  std::vector<std::string> precisions;  // empty = all
  bool reference_candidates = true;     // and the precisions' columns aligned with them
  bool logits = false;
  bool hidden = false;
};

/// Reads one part, checking every size, range and order that readers rely on (columns of one
/// length, ragged bounds, ids in [0, V), finite numbers, ranks in [0, V), tops and candidates in
/// order). IoError naming file, dataset and what is wrong; a failed lock names
/// HDF5_USE_FILE_LOCKING.
TracePart read_trace_part(const std::filesystem::path& path, const TraceSelection& selection = {});

/// All parts of a run in order, from traces/index.json (part file, steps, sha256). Headers,
/// precisions and schemes must agree. IoError when a part is missing, altered or of another run.
class TraceSet {
 public:
  explicit TraceSet(const std::filesystem::path& directory);
  std::size_t parts() const { return parts_.size(); }
  std::int64_t steps() const { return steps_; }
  /// Whether that part has units of `split`.
  bool holds(std::size_t part, std::string_view split) const;
  /// Distinct books (source and name) among the units of `split`.
  std::int64_t books(std::string_view split) const;
  /// Checks the part's SHA-256 before HDF5 sees a byte of it.
  TracePart read(std::size_t part, const TraceSelection& selection = {}) const;
  /// All parts as one, units of the given split only ("" = all): units, steps and ragged offsets
  /// rebased, bits per element averaged over units. FailedError when the split has no units.
  TracePart read_split(std::string_view split, const TraceSelection& selection = {}) const;
  const TraceHeader& header() const { return header_; }
  const std::vector<std::string>& precisions() const { return precisions_; }

 private:
  struct Part {
    std::filesystem::path path;
    std::string sha256;
    std::vector<std::string> unit_splits, unit_sources, unit_books;
  };
  std::filesystem::path directory_;
  std::vector<Part> parts_;
  TraceHeader header_;
  std::vector<std::string> precisions_;
  std::int64_t steps_ = 0;
};

/// traces/index.json (index.schema.json), written last: a run directory without it has no finished
/// traces. `part_files` are names within `directory`.
void write_trace_index(const std::filesystem::path& directory,
                       const std::vector<std::string>& part_files);

}  // namespace dgap::schemas
