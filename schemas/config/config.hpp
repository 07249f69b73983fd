#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/config/retrieval_kinds.hpp"
#include "schemas/scheme/scheme.hpp"

/// The configuration file, version 1 (schemas/config/config-format.md). Every field has its default
/// here and nowhere else; the reader is typed by this schema, never by YAML's guesses.
namespace dgap::schemas {

struct RunConfig {
  std::string name = "run";
  std::string dir = "runs";  // the run directory is <dir>/<name>/
  std::uint64_t seed = 1;
  int threads = 0;  // 0 = all that the process may use
  bool operator==(const RunConfig&) const = default;
};

struct ModelConfig {
  std::string path;                // required
  std::string format = "auto";     // auto | gguf | huggingface
  std::string compute = "auto";    // auto | f32 | bf16
  std::string device = "cpu";      // cpu | cuda
  std::int64_t memory_budget = 0;  // bytes; 0 = no limit
  bool operator==(const ModelConfig&) const = default;
};

/// Which split of the corpus plays which part, and how many sites each book of it gives.
struct SplitConfig {
  std::string train = "train";
  std::string validation = "validation";
  std::string test = "test";
  bool operator==(const SplitConfig&) const = default;
};
struct SitesConfig {
  int train = 4;
  int validation = 4;
  int test = 4;
  bool operator==(const SitesConfig&) const = default;
};

struct SharesConfig {
  double train = 0.8, validation = 0.1, test = 0.1;
  bool operator==(const SharesConfig&) const = default;
};

/// Synthetic prompts beside the books, whose haystacks are those books.
struct RetrievalCorpusConfig {
  int train = 0, validation = 0;  // prompts
  int context = 768;              // tokens of prompt and answer at most
  std::vector<std::string> kinds = all_retrieval_kinds();
  std::int64_t prompts() const { return std::int64_t{train} + validation; }
  bool operator==(const RetrievalCorpusConfig&) const = default;
};

struct CorpusConfig {
  std::string path;  // required
  std::string layout = "pg19";
  SplitConfig splits;
  SharesConfig shares;                   // of a corpus without splits
  std::string text_key = "text";         // jsonl
  std::string chat_template = "chatml";  // chat
  bool special_tokens = false;           // their texts become those tokens; always so in chat
  std::vector<int> context_lengths = {1024};
  int decode_steps = 256;
  SitesConfig sites_per_book;  // one integer, or {train, validation, test}
  int front_matter = 512;      // tokens skipped at a book's beginning where the book is long enough
  RetrievalCorpusConfig retrieval;
  bool operator==(const CorpusConfig&) const = default;
};

/// Text that the thresholds and levels of cache schemes come from, where they need any (kvquant).
struct CalibrationConfig {
  int windows = 16;
  int tokens = 0;  // of a window; 0 = 2,048, or 512 for models of hidden size below 1,024
  bool operator==(const CalibrationConfig&) const = default;
};

/// Bits of every layer, KV head and tensor, chosen for a budget (docs/allocation.md).
struct AllocationConfig {
  std::string base = "none";       // the precision that is changed; none = no allocation
  std::string name = "allocated";  // of the precision that results
  double budget = 0.0;             // bits per element, mean of keys and values
  double floor = 0.0;              // token accuracy on validation prompts; where budget is 0
  std::vector<int> choices = {4};  // bits that a head's tensor may have instead of the base's
  std::vector<std::string> tensors = {"key", "value"};
  std::string estimator = "auto";  // auto | spared | paths | greedy
  int prompts = 16;                // that bits are chosen on
  int validation_prompts = 32;     // that allocations are compared on
  int sites = 8;                   // of book text, for either
  int steps = 32;                  // scored per site
  int context = 512;               // tokens of a prompt, and of a site's prefix, at most
  double book_weight = 1.0;        // of the books' KL beside the answers' negative log-likelihood
  int paths = 2;                   // random orders per prompt and site, of estimator paths
  int random = 4;                  // random allocations of the same budget, as control
  bool wanted() const { return base != "none"; }
  bool operator==(const AllocationConfig&) const = default;
};

struct DecodeConfig {
  std::string mode = "blocked";  // blocked | stepwise
  int block = 128;               // teacher-forced rows per block
  bool operator==(const DecodeConfig&) const = default;
};

struct TraceConfig {
  std::string logits = "compact";  // compact | full
  int top = 0;                     // M; 0 = window.cap + 1
  double alpha_max = 0.95;
  bool hidden = false;
  int units_per_part = 8;
  bool operator==(const TraceConfig&) const = default;
};

struct WindowConfig {
  double alpha = 0.9;
  double rho_k = 0.8;
  int cap = 256;
  double confidence = 0.0;  // one-sided level of the lower bound that rho_k is for; 0 = the mean
  double adaptive = 0.0;    // share of K_b's coverage that a window per step keeps; 0 = K_b always
  bool operator==(const WindowConfig&) const = default;
};

struct LabelsConfig {
  double epsilon = 0.1;
  double rho_c = 0.7;
  bool operator==(const LabelsConfig&) const = default;
};

struct DetectorConfig {
  std::string architecture = "mlp";  // linear | mlp
  std::vector<int> hidden = {64, 32};
  bool escalate = false;  // a second output: distorted and not covered
  bool operator==(const DetectorConfig&) const = default;
};

/// Self-attention over the candidates of a window.
struct TransformerConfig {
  int width = 32, heads = 4, blocks = 1;
  int hidden = 64;  // between the two layers after attention
  bool operator==(const TransformerConfig&) const = default;
};

struct CorrectorConfig {
  std::string architecture = "mlp";  // linear | mlp | transformer
  std::string form = "candidate";    // candidate | window
  std::vector<int> hidden = {64, 32};
  TransformerConfig transformer;
  std::vector<std::string> inputs = {"logits"};
  int rank = 8;                        // numbers per vocabulary entry, with tokens or hidden
  std::string objective = "extended";  // paper | extended
  double temperature = 1.0;
  double lambda_rank = 1e-3;  // a sum over all pairs: 0.1 outweighs the KL (docs/training.md)
  double lambda_reg = 1e-4;

  bool takes(std::string_view input) const {
    return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
  }
  bool operator==(const CorrectorConfig&) const = default;
};

struct TrainingConfig {
  int epochs = 10;
  int batch = 256;
  double learning_rate = 2e-3;
  double weight_decay = 0.01;
  int patience = 4;                       // epochs without a better validation loss
  double positive_weight = 1.0;           // class weight of y = 1 in the detector's loss
  std::map<std::string, double> weights;  // of a source's or domain's steps in the corrector's loss
  int seeds = 1;                          // correctors trained from as many seeds
  std::vector<double> learning_curve;     // shares of the training steps, ascending
  /// Values, in YAML, of keys of corrector and training; correctors are trained with every
  /// combination.
  std::map<std::string, std::vector<std::string>> search;
  bool operator==(const TrainingConfig&) const = default;
};

/// A threshold that follows a correction rate at run time.
struct OnlineConfig {
  double rate = 0.0;  // 0 = off
  double step = 0.02;
  double low = 0.0, high = 1.0;
  bool operator==(const OnlineConfig&) const = default;
};
struct ThresholdConfig {
  std::string policy = "tradeoff";  // fixed | budget | target | tradeoff
  double value = 0.60;              // of `fixed`
  double cost = 0.01;               // nat per corrected step, of `tradeoff`
  double budget = 0.5;              // largest correction rate, of `budget`
  double target = 0.1;              // mean drift to reach, of `target`
  double worse_share = 1.0;         // bound on the share of steps made worse; 1 = none
  double worse_confidence = 0.9;    // probability with which it holds
  double escalate_precision = 0.5;  // of the second output, on validation steps
  OnlineConfig online = {};
  bool operator==(const ThresholdConfig&) const = default;
};

struct RetrievalTasksConfig {
  int cases = 10;     // prompts of each task
  int context = 900;  // tokens of prompt and answer at most
  std::vector<std::string> tasks = all_retrieval_kinds();
  bool operator==(const RetrievalTasksConfig&) const = default;
};
struct EvaluateConfig {
  RetrievalTasksConfig retrieval;
  bool operator==(const EvaluateConfig&) const = default;
};

struct Config {
  int version = 1;
  RunConfig run;
  ModelConfig model;
  CorpusConfig corpus;
  std::vector<Scheme> precisions;  // required, at least one, distinct names
  CalibrationConfig calibration;
  AllocationConfig allocation;
  DecodeConfig decode;
  TraceConfig trace;
  WindowConfig window;
  LabelsConfig labels;
  DetectorConfig detector;
  CorrectorConfig corrector;
  TrainingConfig training;
  ThresholdConfig threshold;
  EvaluateConfig evaluate;

  std::filesystem::path run_directory() const { return std::filesystem::path(run.dir) / run.name; }
  int trace_top() const { return trace.top > 0 ? trace.top : window.cap + 1; }
  bool operator==(const Config&) const = default;
};

/// Reads and checks a configuration. `overrides` are "key.path=value" (value in YAML), applied
/// before checking. UsageError with file, line, key path and the nearest known key on: unknown or
/// duplicate keys, wrong types, values out of range, aliases that expand without bound, nesting
/// deeper than 32, a file over 1 MiB, tabs as indentation, merge keys.
Config read_config(const std::filesystem::path& file,
                   const std::vector<std::string>& overrides = {});
Config parse_config(std::string_view text, std::string_view file_name,
                    const std::vector<std::string>& overrides = {});

/// One combination of training.search: the values by key, in YAML, and the configuration with them.
struct SearchSetting {
  std::map<std::string, std::string> values;
  Config config;
};
/// Every combination, the first key's values outermost; the configuration itself where nothing is
/// searched.
std::vector<SearchSetting> search_settings(const Config& config);

/// The fully resolved configuration as canonical YAML: every key, one order, shortest numbers.
/// Reading it gives an equal Config.
std::string to_yaml(const Config& config);

/// The same without run.threads, run.dir and model.memory_budget, which must not change results:
/// what traces carry, and what run_id is the SHA-256 of.
std::string to_trace_yaml(const Config& config);

/// The same again, restricted to what the named stage and those before it depend on (allocate:
/// run.seed, model, corpus, precisions, allocation; collect: also calibration, decode, trace,
/// window.cap; and so on). Resuming compares these.
std::string to_stage_yaml(const Config& config, std::string_view stage);

}  // namespace dgap::schemas
