#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "schemas/bundle/manifest.hpp"

namespace dgap::schemas {
namespace {

constexpr std::int64_t kMaxHidden = 65536;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

class Checker {
 public:
  Checker(const Tensors& tensors, const std::string& file) : tensors_(tensors), file_(file) {}

  /// A network at `prefix`: inputs -> hidden sizes, as its biases say -> outputs.
  void network(const std::string& prefix, int layers, std::int64_t inputs,
               std::int64_t last_outputs = 1) {
    expect(prefix + ".mean", {inputs});
    expect(prefix + ".scale", {inputs});
    for (int i = 0; i < layers; ++i) {
      const std::string layer = prefix + "." + std::to_string(i);
      const std::int64_t outputs = i + 1 == layers ? last_outputs : hidden_size(layer + ".bias");
      expect(layer + ".bias", {outputs});
      expect(layer + ".weight", {outputs, inputs});
      inputs = outputs;
    }
  }

  void vectors(const std::string& name, std::int64_t count, std::int64_t rank) {
    expect(name, {count, rank});
  }

  /// Self-attention over candidates at `prefix`: in, per block qkv, o, up and down, out.
  void transformer(const std::string& prefix, int layers, int heads, std::int64_t inputs) {
    const auto name = [&](int i) { return prefix + "." + std::to_string(i); };
    const auto dense = [&](int i, std::int64_t in, std::int64_t out) {
      expect(name(i) + ".bias", {out});
      expect(name(i) + ".weight", {out, in});
    };
    expect(prefix + ".mean", {inputs});
    expect(prefix + ".scale", {inputs});
    const std::int64_t width = hidden_size(name(0) + ".bias");
    if (width % heads != 0) {
      throw base::IoError(file_ + ": " + prefix + ": a width of " + std::to_string(width) +
                          " does not divide into " + std::to_string(heads) + " heads");
    }
    dense(0, inputs, width);
    for (int i = 1; i + 1 < layers; i += 4) {
      const std::int64_t hidden = hidden_size(name(i + 2) + ".bias");
      dense(i, width, 3 * width);
      dense(i + 1, width, width);
      dense(i + 2, width, hidden);
      dense(i + 3, hidden, width);
    }
    dense(layers - 1, width, 1);
  }

  /// Every tensor was asked for and holds finite numbers.
  void finish() const {
    for (const auto& [name, tensor] : tensors_) {
      if (!used_.contains(name)) {
        throw base::IoError(file_ + ": holds the tensor " + name.substr(0, 80) +
                            ", which no network of the manifest uses");
      }
      const auto bad = std::find_if(tensor.data.begin(), tensor.data.end(),
                                    [](float x) { return !std::isfinite(x); });
      if (bad != tensor.data.end()) {
        throw base::IoError(file_ + ": " + name + ": element " +
                            std::to_string(bad - tensor.data.begin()) + " is not finite");
      }
    }
  }

 private:
  const Tensor& find(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw base::IoError(file_ + ": the tensor " + name +
                          " is missing, which a network of the manifest needs");
    }
    used_.insert(found->first);
    return found->second;
  }

  void expect(const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::vector<std::int64_t>& found = find(name).shape;
    if (found != shape) {
      throw base::IoError(file_ + ": " + name + ": has shape " + shape_text(found) + "; expected " +
                          shape_text(shape));
    }
  }

  std::int64_t hidden_size(const std::string& name) {
    const std::vector<std::int64_t>& shape = find(name).shape;
    if (shape.size() != 1 || shape[0] < 1 || shape[0] > kMaxHidden) {
      throw base::IoError(file_ + ": " + name + ": has shape " + shape_text(shape) +
                          "; expected one extent from 1 to " + std::to_string(kMaxHidden));
    }
    return shape[0];
  }

  const Tensors& tensors_;
  const std::string& file_;
  std::set<std::string_view> used_;
};

}  // namespace

std::vector<std::string> implied_features(const Bundle& bundle) {
  std::set<std::string> features;
  for (const auto& [name, entry] : bundle.precisions) {
    if (entry.window_mass < 1.0) features.insert("adaptive-window");
    if (entry.detector.escalate) features.insert("escalate");
    const NetworkInfo& corrector = entry.corrector;
    if (corrector.architecture == "none") continue;
    if (corrector.takes("context")) features.insert("context-2");
    if (corrector.takes("tokens")) features.insert("tokens-1");
    if (corrector.takes("hidden")) features.insert("hidden-1");
    if (corrector.form == "window") features.insert("window-1");
    if (corrector.architecture == "transformer") features.insert("transformer-1");
  }
  return {features.begin(), features.end()};
}

void check_tensors(const Bundle& bundle, const std::string& file) {
  Checker checker(bundle.tensors, file);
  for (const auto& [name, entry] : bundle.precisions) {
    const NetworkInfo& detector = entry.detector;
    const NetworkInfo& corrector = entry.corrector;
    if (detector.architecture != "constant") {
      checker.network(detector.tensors, detector.layers, kDetectorInputs1);
    }
    if (detector.escalate) {
      checker.network(detector.tensors + ".escalate", detector.layers, kDetectorInputs1);
    }
    if (corrector.architecture == "none") continue;
    const std::string shape = corrector.tensors + ".shape";
    const std::int64_t own = kCandidateInputs1 + (corrector.takes("context") ? kContextInputs2 : 0);
    if (corrector.architecture == "transformer") {
      checker.transformer(shape, corrector.layers, corrector.heads, kDetectorInputs1 + own);
    } else if (corrector.form == "window") {
      checker.network(shape, corrector.layers, kDetectorInputs1 + entry.window * own, entry.window);
    } else {
      checker.network(shape, corrector.layers, kDetectorInputs1 + own);
    }
    if (corrector.has_vectors()) {
      checker.vectors(corrector.tensors + ".tokens", bundle.base_model.vocab_size, corrector.rank);
      checker.network(corrector.tensors + ".query", 1,
                      (corrector.takes("tokens") ? kDetectorInputs1 : 0) +
                          (corrector.takes("hidden") ? bundle.base_model.hidden_size : 0),
                      corrector.rank);
    }
    if (corrector.mass) {
      checker.network(corrector.tensors + ".mass", corrector.layers_of_mass(), kDetectorInputs1);
    }
  }
  checker.finish();
}

}  // namespace dgap::schemas
