#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
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
  std::vector<std::int32_t> top_ids;  // [N, M]
  std::vector<float> top_logits;      // [N, M]
  std::vector<std::int64_t> candidate_first;  // [N + 1]
  std::vector<std::int32_t> candidate_ids;
  std::vector<float> candidate_logits;
  std::vector<float> logits;  // [N, V], full traces only
};

/// Columns of one quantised decode.
struct PrecisionColumns {
  std::vector<double> lse;
  std::vector<float> entropy, target_logit;
  std::vector<float> kl;  // KL(reference || this), nats, full vocabulary, summed in f64
  std::vector<std::int32_t> top_ids;         // [N, M] in this decode's order
  std::vector<float> top_logits;             // [N, M]
  std::vector<float> top_reference_logits;   // [N, M]
  std::vector<double> top_reference_mass_before;  // [N, M]
  std::vector<std::int32_t> candidate_ranks;  // aligned with ReferenceColumns::candidate_ids
  std::vector<float> candidate_logits;
  std::vector<std::uint16_t> hidden;  // [N, d] binary16, optional
  std::vector<float> logits;          // [N, V], full traces only
};

struct PrecisionInfo {
  std::string name;
  std::string scheme_json;
  double bits_per_element_key = 0, bits_per_element_value = 0;  // codes and scales, from allocated bytes
  // Everything (residual window, sinks, centring statistics) at the unit's full length, mean over units.
  double total_bits_per_element_key = 0, total_bits_per_element_value = 0;
};

/// One part, whole, in memory: what the collector writes and readers get.
struct TracePart {
  TraceHeader header;
  std::string config_yaml;
  std::int32_t top = 0;  // M
  std::vector<TraceUnit> units;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> step_unit, step_position, step_target;  // [N]; position of the consumed token
  ReferenceColumns reference;
  std::vector<PrecisionInfo> precisions;
  std::vector<PrecisionColumns> columns;  // same order as `precisions`

  std::int64_t steps() const { return static_cast<std::int64_t>(step_unit.size()); }
};

/// Writes `part` as `<path>.partial`, closes, syncs and renames it. Never opens an existing file for
/// writing. IoError with file and remedy (locking: HDF5_USE_FILE_LOCKING).
void write_trace_part(const std::filesystem::path& path, const TracePart& part);

/// What to read: columns that are not asked for stay empty.
struct TraceSelection {
  std::vector<std::string> precisions;  // empty = all
  bool reference_candidates = true;
  bool logits = false;
  bool hidden = false;
};

/// Reads one part, checking every size, range and order that readers rely on (columns of one
/// length, ragged bounds, ids in [0, V), finite lse, ranks in [0, V), top in order). IoError naming
/// file, dataset and what is wrong.
TracePart read_trace_part(const std::filesystem::path& path, const TraceSelection& selection = {});

/// All parts of a run in order, from traces/index.json (part file, steps, sha256). Checks that
/// headers agree. IoError when a part is missing, altered or of another run.
class TraceSet {
 public:
  explicit TraceSet(const std::filesystem::path& directory);
  std::size_t parts() const { return files_.size(); }
  std::int64_t steps() const { return steps_; }
  TracePart read(std::size_t part, const TraceSelection& selection = {}) const;
  /// All parts as one, rows of the given split only ("" = all): units, steps and ragged offsets rebased.
  TracePart read_split(std::string_view split, const TraceSelection& selection = {}) const;
  const std::vector<std::string>& precisions() const { return precisions_; }

 private:
  std::filesystem::path directory_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::string> precisions_;
  std::int64_t steps_ = 0;
};

/// traces/index.json, written last: a run directory without it has no finished traces.
void write_trace_index(const std::filesystem::path& directory, const std::vector<std::string>& part_files);

}  // namespace dgap::schemas
