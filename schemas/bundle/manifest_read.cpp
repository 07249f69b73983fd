#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.hpp"
#include "base/version.hpp"
#include "schemas/bundle/manifest.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::schemas {
namespace {

// Far above what there is; a restorer takes memory in proportion.
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24, kMaxWindow = 100000;
constexpr int kMaxLayers = 16;
constexpr double kMaxRiskScale = 1e30;
constexpr int kMajor = 1, kMinor = 0;
constexpr std::string_view kKnownFeatures[] = {"adaptive-window", "context-2", "escalate",
                                               "hidden-1",        "tokens-1",  "transformer-1",
                                               "window-1"};

/// "3.1.4" as numbers; `parts` of them, each below 2^31.
std::vector<int> version_numbers(const JsonObject& object, std::string_view key,
                                 std::string_view text, std::size_t parts) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (numbers.size() < parts) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || *at == '-') break;
    numbers.push_back(number);
    at = next;
    if (numbers.size() < parts && (at == end || *at++ != '.')) break;
  }
  if (numbers.size() != parts || at != end) {
    object.fail(key, "is \"" + std::string(text.substr(0, 80)) + "\"; expected " +
                         std::to_string(parts) + " numbers with points between them");
  }
  return numbers;
}

/// Versions and required features, before anything else is looked at. True when the manifest is of
/// a newer minor version, whose unknown keys may be ignored.
bool check_versions(JsonObject& root, const std::string& file) {
  root.choice("format", {"dgap-bundle"});
  const std::string format = root.text("format_version", 32);
  const std::vector<int> version = version_numbers(root, "format_version", format, 2);
  if (version[0] != kMajor) {
    throw UnsupportedBundleError(file + ": format_version: is " + format +
                                 "; this build reads 1.x (up to 1.0)");
  }
  const std::string needed = root.text("min_runtime_version", 32);
  const std::string own(base::version());
  if (version_numbers(root, "min_runtime_version", own, 3) <
      version_numbers(root, "min_runtime_version", needed, 3)) {
    throw UnsupportedBundleError(file + ": min_runtime_version: is " + needed + "; this build is " +
                                 own);
  }
  const std::vector<std::string> required = root.texts("required_features", 64);
  for (const std::string& feature : required) {
    if (std::find(std::begin(kKnownFeatures), std::end(kKnownFeatures), feature) !=
        std::end(kKnownFeatures)) {
      continue;
    }
    throw UnsupportedBundleError(file + ": required_features: \"" + feature.substr(0, 80) +
                                 "\" is not known to this build (" + own + ")");
  }
  return version[1] > kMinor;
}

class ManifestReader {
 public:
  ManifestReader(std::string file, bool newer) : file_(std::move(file)), newer_(newer) {}

  Manifest read(JsonObject& root) const {
    Manifest manifest;
    Bundle& bundle = manifest.bundle;
    bundle.base_model = base_model(root.object("base_model"));
    bundle.base_model.license = root.text("license");
    JsonObject producer = root.object("producer");
    producer.text("name");
    bundle.producer_version = producer.text("version");
    bundle.producer_commit = producer.text("commit");
    done(producer);
    JsonObject features = root.object("features");
    bundle.features_version = static_cast<int>(features.integer("version", 0, 1 << 20));
    bundle.feature_names = features.texts("names", 1024);
    check_features(bundle);
    done(features);
    const JsonObject precisions = root.object("precisions");
    if (precisions.value().empty()) root.fail("precisions", "is empty");
    for (const auto& [name, value] : precisions.value().items()) {
      if (!is_name(name) || name.size() > 128) {
        root.fail("precisions",
                  "the name \"" + name.substr(0, 80) + "\" is not made of [A-Za-z0-9._-]");
      }
      bundle.precisions.emplace(
          name, precision({value, file_, "precisions." + name}, bundle.base_model.vocab_size));
    }
    check_required(root, bundle);
    manifest.files = files(root);
    done(root);
    return manifest;
  }

 private:
  static void check_required(JsonObject& root, Bundle& bundle) {
    bundle.required_features = root.texts("required_features", 64);
    for (const std::string& feature : implied_features(bundle)) {
      const auto& listed = bundle.required_features;
      if (std::find(listed.begin(), listed.end(), feature) != listed.end()) continue;
      root.fail("required_features", "lacks \"" + feature + "\", which a precision needs");
    }
  }

  void done(const JsonObject& object) const {
    if (!newer_) object.refuse_others();
  }

  static bool is_name(std::string_view text) {
    return !text.empty() && text.find_first_not_of(
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789._-") == std::string_view::npos;
  }

  BaseModel base_model(JsonObject object) const {
    BaseModel model;
    model.name = object.text("name");
    model.architectures = object.texts("architectures", 64);
    model.vocab_size = object.integer("vocab_size", 1, kMaxVocabulary);
    model.logits_width = object.integer("logits_width", model.vocab_size, kMaxVocabulary);
    model.hidden_size = object.integer("hidden_size", 1, std::int64_t{1} << 24);
    model.tokenizer_sha256 = object.sha256("tokenizer_sha256");
    model.model_sha256 = object.sha256("model_sha256");
    done(object);
    return model;
  }

  void check_features(const Bundle& bundle) const {
    if (bundle.features_version != kFeaturesVersion1) {
      throw UnsupportedBundleError(file_ + ": features.version: is " +
                                   std::to_string(bundle.features_version) +
                                   "; this build knows version 1");
    }
    if (bundle.feature_names.size() != kDetectorInputs1) {
      throw base::IoError(file_ + ": features.names: has " +
                          std::to_string(bundle.feature_names.size()) + " names; version 1 has " +
                          std::to_string(kDetectorInputs1));
    }
  }

  PrecisionEntry precision(JsonObject object, std::int64_t vocab_size) const {
    PrecisionEntry entry;
    entry.scheme_json = object.object("scheme").value().dump();
    entry.window = static_cast<int>(object.integer("window", 1, std::min(vocab_size, kMaxWindow)));
    if (object.value().contains("window_mass")) {
      entry.window_mass = object.real("window_mass", 0.0, 1.0);
    }
    entry.alpha = object.real("alpha", 0.0, 1.0);
    entry.rho_k = object.real("rho_k", 0.0, 1.0);
    coverage(object.object("coverage"), entry);
    labels(object.object("labels"), entry);
    entry.mode = object.choice("mode", {"threshold", "always", "off"});
    threshold(object.object("threshold"), entry);
    for (const std::string_view key : {"allocation", "adapters"}) {
      if (!object.any(key).is_null()) {
        object.fail(key, "is not null; format 1.0 has none, a newer runtime is needed");
      }
    }
    entry.detector = detector(object.object("detector"));
    if (entry.escalate_tau && !entry.detector.escalate) {
      object.fail("threshold.escalate_tau", "is not null, but the detector has no second output");
    }
    entry.corrector = corrector(object.object("corrector"));
    entry.validation_json = object.object("validation").value().dump();
    done(object);
    return entry;
  }

  void coverage(JsonObject object, PrecisionEntry& entry) const {
    constexpr double kRounded = 1.0 + 1e-9;  // means of sums of probabilities
    entry.coverage_mean = object.real("mean", 0.0, kRounded);
    entry.coverage_lower = object.real_or_null("lower", 0.0, kRounded);
    entry.coverage_confidence = object.real_or_null("confidence", 0.0, 1.0);
    done(object);
  }

  void labels(JsonObject object, PrecisionEntry& entry) const {
    entry.epsilon = object.real("epsilon", 0.0, 2.0);
    entry.rho_c = object.real("rho_c", 0.0, 1.0);
    entry.positive_rate = object.real("positive_rate", 0.0, 1.0);
    done(object);
  }

  /// tau is a number where it decides; with `always` and `off` it may be null (read as NaN).
  void threshold(JsonObject object, PrecisionEntry& entry) const {
    entry.tau = entry.mode == "threshold" ? object.real("tau", 0.0, 1.0)
                                          : object.real_or_null("tau", 0.0, 1.0)
                                                .value_or(std::numeric_limits<double>::quiet_NaN());
    entry.escalate_tau = object.real_or_null("escalate_tau", 0.0, 1.0);
    entry.threshold_policy = object.text("policy");
    if (object.value().contains("online")) entry.online = online(object.object("online"));
    done(object);
  }

  OnlineRate online(JsonObject object) const {
    OnlineRate online;
    online.rate = object.real("rate", 0.0, 1.0);
    online.step = object.real("step", std::numeric_limits<double>::min(), 1.0);
    online.low = object.real("low", 0.0, 1.0);
    online.high = object.real("high", online.low, 1.0);
    done(object);
    return online;
  }

  NetworkInfo detector(JsonObject object) const {
    NetworkInfo info;
    info.architecture = object.choice("architecture", {"linear", "mlp", "constant"});
    network(object, info, info.architecture == "constant");
    const bool constant = info.architecture == "constant";
    if (constant) info.constant_risk = object.real("constant_risk", 0.0, 1.0);
    if (object.value().contains("escalate")) info.escalate = object.boolean("escalate");
    if (info.escalate && constant) object.fail("escalate", "is true, but there is no network");
    if (object.value().contains("calibration")) {
      if (constant) object.fail("calibration", "is there, but there is no network");
      info.calibration = risk_scale(object.object("calibration"));
    }
    done(object);
    return info;
  }

  RiskScale risk_scale(JsonObject object) const {
    RiskScale found;
    found.scale = object.real("scale", std::numeric_limits<double>::min(), kMaxRiskScale);
    found.offset = object.real("offset", -kMaxRiskScale, kMaxRiskScale);
    done(object);
    return found;
  }

  NetworkInfo corrector(JsonObject object) const {
    NetworkInfo info;
    info.architecture = object.choice("architecture", {"linear", "mlp", "transformer", "none"});
    info.inputs = object.texts("inputs", 16);
    check_inputs(object, info.inputs);
    info.mass = object.boolean("mass");
    if (info.has_vectors() && info.architecture != "none") {
      info.rank = static_cast<int>(object.integer("rank", 1, 4096));
    }
    if (info.architecture == "transformer") {
      info.heads = static_cast<int>(object.integer("heads", 1, 64));
      const bool mass = info.mass;
      info.mass_layers = static_cast<int>(object.integer("mass_layers", mass, mass * kMaxLayers));
    } else if (info.architecture != "none" && object.value().contains("form")) {
      info.form = object.choice("form", {"window"});
    }
    network(object, info, info.architecture == "none");
    done(object);
    return info;
  }

  static void check_inputs(const JsonObject& object, const std::vector<std::string>& inputs) {
    std::vector<std::string> known = {"logits"};
    for (const char* input : {"context", "tokens", "hidden"}) {
      if (std::find(inputs.begin(), inputs.end(), input) != inputs.end()) known.emplace_back(input);
    }
    if (inputs == known) return;
    object.fail("inputs", "is " + object.value()["inputs"].dump().substr(0, 80) +
                              "; this build serves correctors with inputs \"logits\" and then, in "
                              "this order, \"context\", \"tokens\" and \"hidden\"");
  }

  static void network(JsonObject& object, NetworkInfo& info, bool empty) {
    const std::int64_t least = empty                                ? 0
                               : info.architecture == "linear"      ? 1
                               : info.architecture == "transformer" ? 6
                                                                    : 2;
    info.tensors = object.text("tensors", 256);
    info.layers = static_cast<int>(object.integer("layers", least, least < 2 ? least : kMaxLayers));
    if (info.architecture == "transformer" && info.layers % 4 != 2) {
      object.fail("layers",
                  "is " + std::to_string(info.layers) + "; a transformer has 2 and 4 per block");
    }
    if (!empty && info.tensors.empty()) object.fail("tensors", "is empty");
  }

  std::vector<FileEntry> files(JsonObject& root) const {
    const nlohmann::json& list = root.any("files");
    if (!list.is_array() || list.size() > 64) {
      root.fail("files", "expected an array of at most 64 files");
    }
    std::vector<FileEntry> entries;
    for (const nlohmann::json& value : list) {
      JsonObject object(value, file_, "files[" + std::to_string(entries.size()) + "]");
      FileEntry& entry = entries.emplace_back();
      entry.path = path(object);
      entry.role = newer_ ? object.text("role")
                          : object.choice("role", {"weights", "calibration", "readme"});
      entry.size = object.integer("size", 0, kMaxFileSize);
      entry.sha256 = object.sha256("sha256");
      done(object);
    }
    check_files(root, entries);
    return entries;
  }

  static std::string path(JsonObject& object) {
    std::string path = object.text("path", 1024);
    for (std::string_view rest = path;;) {
      const std::size_t slash = rest.find('/');
      const std::string_view name = rest.substr(0, slash);
      if (!is_name(name) || name == "." || name == "..") {
        object.fail("path", "is \"" + path.substr(0, 80) +
                                "\"; expected names of [A-Za-z0-9._-] with / between them, "
                                "relative to the bundle and inside it");
      }
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
    }
    return path;
  }

  void check_files(const JsonObject& root, const std::vector<FileEntry>& entries) const {
    std::set<std::string_view> seen = {kManifest, kSums, kProvenance};
    for (const FileEntry& entry : entries) {
      if (!seen.insert(entry.path).second) {
        root.fail("files", "lists " + entry.path + ", which is listed already or never listed");
      }
    }
    one_of_role(root, entries, "weights", kWeights);
    one_of_role(root, entries, "calibration", kCalibration);
    one_of_role(root, entries, "readme", kReadme);
  }

  static void one_of_role(const JsonObject& root, const std::vector<FileEntry>& entries,
                          std::string_view role, std::string_view path) {
    int there = 0, others = 0;
    for (const FileEntry& entry : entries) {
      if (entry.role == role) ++(entry.path == path ? there : others);
    }
    if (there != 1 || others != 0) {
      root.fail("files",
                "expected one file of role " + std::string(role) + ", " + std::string(path));
    }
  }

  std::string file_;
  bool newer_;
};

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& file) {
  if (text.size() > kMaxManifest) {
    throw base::IoError(file + ": is " + std::to_string(text.size()) + " bytes long; at most " +
                        std::to_string(kMaxManifest) + " are accepted");
  }
  const nlohmann::json value = parse_json_object(text, file, kMaxDepth, kMaxValues);
  JsonObject root(value, file, "");
  const bool newer = check_versions(root, file);
  return ManifestReader(file, newer).read(root);
}

}  // namespace dgap::schemas
