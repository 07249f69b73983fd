#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// Bundles, `dgap-bundle` 1.0 (schemas/bundle/bundle-format.md): what a serving stack loads. This
/// target depends on nothing but the C++ library and nlohmann-json, because the runtime links it.
namespace dgap::schemas {

/// Inputs of the networks under `features.version` 1 (docs/features.md): detector and mass networks
/// take the first, the corrector's shape network both.
inline constexpr int kFeaturesVersion1 = 1;
inline constexpr int kDetectorInputs1 = 20, kCandidateInputs1 = 7;
/// Further inputs per candidate of a corrector that takes `context`.
inline constexpr int kContextInputs2 = 31;

/// A bundle of a newer major version, or one that needs a feature that this build does not have.
struct UnsupportedBundleError : base::IoError {
  using IoError::IoError;
};

/// A tensor of weights.safetensors: F32, row-major.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};
using Tensors = std::map<std::string, Tensor, std::less<>>;

/// How a detector's output f was made a probability on validation steps: sigmoid(scale f + offset).
/// A record: the last layer's weights have it already.
struct RiskScale {
  double scale = 1.0, offset = 0.0;
};

/// A detector or corrector: feed-forward networks, layers of `y = W x + b` with GELU (tanh form)
/// between them; `linear` has one layer. Tensors of a network at prefix P: P.mean, P.scale [in]
/// (standardisation), and P.<i>.weight [out, in], P.<i>.bias [out] for i < layers. A detector is
/// one network at `tensors`, and, when `escalate`, another with as many layers at
/// `<tensors>.escalate`; a corrector has `<tensors>.shape` and, when `mass`, `<tensors>.mass`
/// with as many layers (a transformer: `mass_layers`). Where the form is `window`, the shape
/// network takes phi and the inputs of all candidates and has as many outputs as the window
/// candidates; a transformer's layers are in, per block qkv, o, up and down, and out
/// (runtime/transformer.hpp). One that takes `tokens` or `hidden` has <tensors>.tokens [vocab_size,
/// rank] and the network <tensors>.query of one layer, with `rank` outputs: its inputs are phi with
/// `tokens`, then the hidden state with `hidden`.
struct NetworkInfo {
  std::string architecture;  // linear | mlp; detectors also constant, correctors also
                             // transformer and none
  std::vector<std::string>
      inputs;           // of a corrector: logits, and what else it takes: context, tokens, hidden
  std::string tensors;  // prefix in weights.safetensors
  int layers = 0;
  std::string form = "candidate";  // of a corrector's shape network: candidate | window
  bool mass = false;               // of a corrector
  double constant_risk = 0.0;      // of `constant` (empty or one-class labels)
  int heads = 0;                   // of a transformer
  int mass_layers = 0;             // of the mass network beside a transformer; else it has `layers`
  bool escalate = false;           // of a detector: a second network at `<tensors>.escalate`
  std::optional<RiskScale> calibration = std::nullopt;  // of a detector

  int rank = 0;  // of the tokens' vectors of a corrector that has_vectors()

  bool has_vectors() const { return takes("tokens") || takes("hidden"); }
  int layers_of_mass() const { return architecture == "transformer" ? mass_layers : layers; }
  bool takes(std::string_view input) const {
    return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
  }
};

/// Bounds of a threshold that follows a correction rate at run time.
struct OnlineRate {
  double rate = 0, step = 0, low = 0, high = 1;
};

struct PrecisionEntry {
  std::string scheme_json;
  int window = 0;
  double window_mass = 1.0;  // ends a row's window before `window` candidates; 1: never
  double alpha = 0, rho_k = 0;
  double coverage_mean = 0;
  std::optional<double> coverage_lower, coverage_confidence;
  double epsilon = 0, rho_c = 0, positive_rate = 0;
  std::string mode = "threshold";  // threshold | always | off
  double tau = 0;
  std::optional<double> escalate_tau;
  std::optional<OnlineRate> online;
  std::string threshold_policy;
  NetworkInfo detector, corrector;
  std::string validation_json = "{}";  // headline figures
};

struct BaseModel {
  std::string name;
  std::vector<std::string> architectures;
  std::int64_t vocab_size = 0, logits_width = 0, hidden_size = 0;
  std::string tokenizer_sha256, model_sha256;
  std::string license;
};

struct Bundle {
  BaseModel base_model;
  std::string producer_version, producer_commit;
  int features_version = 1;
  std::vector<std::string> feature_names;
  std::vector<std::string> required_features;  // written with those that the entries imply
  std::map<std::string, PrecisionEntry, std::less<>> precisions;
  Tensors tensors;
  std::string manifest_json;  // as read_bundle read and verified it; not looked at when written
};

/// What a runtime must know beyond its version to serve these entries, in order of names:
/// "adaptive-window" where a mass ends windows, "context-2", "hidden-1" and "tokens-1" where a
/// corrector takes these, "escalate" where a detector has a second output, "transformer-1" where a
/// corrector is a transformer, "window-1" where one takes whole windows.
std::vector<std::string> implied_features(const Bundle& bundle);

/// Verification when a bundle is opened.
enum class VerifyMode { full, size_only };

/// Reads a bundle directory, treating every byte as hostile: sizes, hashes, paths (relative,
/// inside, no links), versions, required features, JSON depth and size, safetensors header, shapes
/// against the declared networks, finite weights. IoError naming file, key, what was found and
/// expected; UnsupportedBundleError (one of them) for what a newer build would read.
Bundle read_bundle(const std::filesystem::path& directory, VerifyMode verify = VerifyMode::full);

/// Writes a bundle: every file into a temporary directory beside `directory`, manifest last,
/// synced, then renamed into place (an older bundle there is replaced). `calibration_json` and
/// `readme` are stored as they are; `provenance_json` is the only file with times and hosts.
/// FailedError for contents that read_bundle would refuse, before anything is written; UsageError
/// where `directory` is something else than a bundle.
void write_bundle(const std::filesystem::path& directory, const Bundle& bundle,
                  std::string_view calibration_json, std::string_view readme,
                  std::string_view provenance_json);

/// safetensors files of F32 tensors, with the format's own rules (no holes, no overlaps, no
/// duplicate names, header at most 4 MiB). Bytes are deterministic: names in order.
std::string encode_safetensors(const Tensors& tensors);
Tensors decode_safetensors(std::string_view bytes, std::string_view file_name);
/// Names and shapes alone, from the first bytes of a file of `size` bytes, kMaxSafetensorsStart or
/// all of them: what it declares is known before memory is taken for it.
Tensors decode_safetensors_shapes(std::string_view start, std::uint64_t size,
                                  std::string_view file_name);
inline constexpr std::size_t kMaxSafetensorsStart = 8 + (std::size_t{4} << 20);

}  // namespace dgap::schemas
