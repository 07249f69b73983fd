#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/config/config.hpp"

/// The small JSON files through which stages meet in a run directory, each with a JSON Schema
/// beside this file (windows.schema.json, threshold.schema.json, evaluation.schema.json,
/// stage.schema.json). Non-finite numbers are written as null. Reading is strict: IoError naming
/// file and key on missing, unknown, duplicate and mistyped keys, columns of different lengths, and
/// other versions.
namespace dgap::schemas {

/// Eq. 4 for one alpha: by surface_k the mean coverage and its lower bound (empty where none was
/// asked for), by surface_rho the window that it gives, 0 where none up to the cap reaches that
/// rho.
struct CoverageSlice {
  double alpha = 0, reachable = 0;
  std::vector<double> coverage, lower;
  std::vector<int> window;
};

/// Windows of a size per step: the smallest K <= K_b whose tokens hold `mass` of the quantised
/// distribution. The curve is over mass, ascending; its last point is 1, K_b at every step.
struct AdaptiveWindow {
  double share = 0;  // of K_b's mean coverage that is kept
  double mass = 1;
  double window_mean = 0, coverage_mean = 0;
  std::optional<double> coverage_lower;  // where a confidence was asked for
  std::vector<double> curve_mass, curve_window, curve_coverage;
};

/// windows.json of one precision (arXiv:2607.16248 Eq. 4). With a confidence it is the lower bounds
/// that reach rho_k, in `window` and in the surface.
struct WindowResult {
  int window = 0;
  double alpha = 0, rho_k = 0;
  double coverage_mean = 0;
  std::optional<double> coverage_lower, coverage_confidence;
  double reachable = 0;      // E[mass of C(alpha)]: no K can cover more
  bool capped = false;       // window.cap stopped the search
  std::vector<int> curve_k;  // 1 .. cap
  std::vector<double> curve_coverage;
  std::vector<double> curve_lower;  // empty where no bound was asked for
  std::vector<int> surface_k;       // ascending
  std::vector<double> surface_rho;  // ascending
  std::vector<CoverageSlice> surface;
  std::optional<AdaptiveWindow> adaptive;
  double positive_rate = 0, uncovered_rate = 0;  // Eq. 9 labels on the validation traces
  std::vector<double> coverage_quantiles;        // of c_t(K) at 5, 25, 50, 75, 95 %

  /// The mass that ends a step's window before K_b; 1: none does.
  double window_mass() const { return adaptive ? adaptive->mass : 1.0; }
};
using Windows = std::map<std::string, WindowResult>;
void write_windows(const std::filesystem::path& file, const Windows& windows);
Windows read_windows(const std::filesystem::path& file);

/// threshold.json of one precision: one point per distinct score (thinned to at most 513), and
/// always the ends tau = 0 (everything above) and tau = 1 (nothing).
struct ThresholdCurve {
  std::vector<double> tau, rate, drift, kl, top1_agreement, perplexity, kl_worse_share;
  std::vector<double> worse_by_book, worse_bound;  // WorseBound; the bound is NaN without books
};
/// Bound on the share of a book's steps that a correction makes worse, mean over books
/// (arXiv:2110.01052; books are the independent units).
struct WorseBound {
  std::int64_t books = 0;       // fewer than 20: none of the bounds is given
  double confidence = 0.9;      // of worse_bound and of `limit`
  std::optional<double> limit;  // what was asked for
  std::optional<double> tau;    // the least tau that keeps to `limit`
};
/// The second output's threshold, and what it does to the validation steps.
struct Escalation {
  double tau = 1.0;
  double rate = 0, precision = 0, recall = 0;  // of distorted and uncovered steps; NaN without any
};
/// A corrector on the validation steps of one domain: mean KL as decoded, as exported (at tau),
/// and with every step corrected.
struct DomainFigures {
  std::int64_t steps = 0;
  double kl_before = 0, kl_after = 0, kl_always = 0;
  double standard_error = 0;  // of kl_always - kl_before, from sites; 0 of a single site
  bool harmed = false;        // at the policy's tau: more than two errors and 2 % worse
};

struct ThresholdResult {
  double tau = 0.6;
  std::optional<double> raised_from;  // the policy's tau, where a domain was made worse at it
  std::string policy;
  std::string mode = "threshold";  // threshold | always | off
  double drift_before = 0, kl_before = 0;
  WorseBound worse;
  std::map<std::string, DomainFigures> domains;
  std::optional<Escalation> escalate;  // where the detector has a second output
  ThresholdCurve curve;
};
using Thresholds = std::map<std::string, ThresholdResult>;
void write_thresholds(const std::filesystem::path& file, const Thresholds& thresholds);
Thresholds read_thresholds(const std::filesystem::path& file);

/// The stages in their order: allocate, collect, calibrate, train, threshold, export, evaluate,
/// report.
std::span<const std::string_view> stage_names();

/// A finished stage leaves <run>/stages/<stage>.json, written last: the key under which it ran and
/// the SHA-256 of its outputs. Same key and unaltered outputs: the stage is skipped.
class Stage {
 public:
  /// `inputs`: files of earlier stages, inside the run directory, that this one reads. FailedError
  /// naming the verb to run first when one is missing. The key is the SHA-256 over
  /// to_stage_yaml(config, name) and the inputs' hashes.
  Stage(const Config& config, std::string name, const std::vector<std::filesystem::path>& inputs);
  /// Whether this stage finished under the same key and its outputs are as it left them. A damaged
  /// record counts as none.
  bool done() const;
  /// Records `outputs` (files inside the run directory) with size and SHA-256. Call last.
  void finish(const std::vector<std::filesystem::path>& outputs) const;
  const std::string& key() const { return key_; }

 private:
  std::filesystem::path record() const { return run_directory_ / "stages" / (name_ + ".json"); }

  std::filesystem::path run_directory_;
  std::string name_, key_;
};

/// Checks every record of a finished stage in a run directory: it is well formed, and its outputs
/// have the sizes and hashes that it states. IoError naming the first file that does not.
void verify_stage_records(const std::filesystem::path& run_directory);

}  // namespace dgap::schemas
