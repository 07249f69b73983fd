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

  /// A network at `prefix`: inputs -> hidden sizes, as its biases say -> 1.
  void network(const std::string& prefix, int layers, std::int64_t inputs) {
    expect(prefix + ".mean", {inputs});
    expect(prefix + ".scale", {inputs});
    for (int i = 0; i < layers; ++i) {
      const std::string layer = prefix + "." + std::to_string(i);
      const std::int64_t outputs = i + 1 == layers ? 1 : hidden_size(layer + ".bias");
      expect(layer + ".bias", {outputs});
      expect(layer + ".weight", {outputs, inputs});
      inputs = outputs;
    }
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
  for (const auto& [name, entry] : bundle.precisions) {
    if (entry.corrector.architecture != "none" && entry.corrector.takes("context")) {
      return {"context-1"};
    }
  }
  return {};
}

void check_tensors(const Bundle& bundle, const std::string& file) {
  Checker checker(bundle.tensors, file);
  for (const auto& [name, entry] : bundle.precisions) {
    const NetworkInfo& detector = entry.detector;
    const NetworkInfo& corrector = entry.corrector;
    if (detector.architecture != "constant") {
      checker.network(detector.tensors, detector.layers, kDetectorInputs1);
    }
    if (corrector.architecture == "none") continue;
    checker.network(
        corrector.tensors + ".shape", corrector.layers,
        kDetectorInputs1 + kCandidateInputs1 + (corrector.takes("context") ? kContextInputs1 : 0));
    if (corrector.mass) {
      checker.network(corrector.tensors + ".mass", corrector.layers, kDetectorInputs1);
    }
  }
  checker.finish();
}

}  // namespace dgap::schemas
