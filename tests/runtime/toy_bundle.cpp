#include "tests/runtime/toy_bundle.hpp"

#include <algorithm>
#include <string>

#include "base/random.hpp"
#include "base/version.hpp"
#include "runtime/context_features.hpp"
#include "runtime/features.hpp"

namespace dgap::test {
namespace {

schemas::Tensor random_tensor(std::vector<std::int64_t> shape, double scale, base::Random& random) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  schemas::Tensor tensor{std::move(shape), std::vector<float>(count)};
  for (float& x : tensor.data) x = static_cast<float>((random.uniform() - 0.5) * 2.0 * scale);
  return tensor;
}

schemas::NetworkInfo info(const char* architecture, const std::string& tensors, int layers) {
  schemas::NetworkInfo network;
  network.architecture = architecture;
  network.tensors = tensors;
  network.layers = layers;
  return network;
}

schemas::PrecisionEntry entry(int window, const char* mode) {
  schemas::PrecisionEntry precision;
  precision.scheme_json = R"({"name": "K1V1", "key": {"bits": 1}, "value": {"bits": 1}})";
  precision.window = window;
  precision.alpha = 0.9, precision.rho_k = 0.8;
  precision.coverage_mean = 0.81, precision.coverage_lower = 0.79;
  precision.coverage_confidence = 0.95;
  precision.epsilon = 0.1, precision.rho_c = 0.7, precision.positive_rate = 0.4;
  precision.mode = mode;
  precision.tau = 0.5;
  precision.threshold_policy = "fixed";
  precision.validation_json = R"({"kl": {"before": 1.0, "after": 0.75}})";
  return precision;
}

/// One block of width 8 with a hidden layer of 11.
void add_transformer(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                     std::uint64_t seed) {
  base::Random random(seed);
  tensors[prefix + ".mean"] = random_tensor({inputs}, 1.0, random);
  tensors[prefix + ".scale"] = random_tensor({inputs}, 0.3, random);
  const std::int64_t layers[][2] = {{inputs, 8}, {8, 24}, {8, 8}, {8, 11}, {11, 8}, {8, 1}};
  for (std::size_t i = 0; i < std::size(layers); ++i) {
    const auto [in, out] = layers[i];
    const std::string layer = prefix + "." + std::to_string(i);
    tensors[layer + ".weight"] = random_tensor({out, in}, 0.3, random);
    tensors[layer + ".bias"] = random_tensor({out}, 0.3, random);
  }
}

}  // namespace

void add_network(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                 std::initializer_list<int> hidden, std::uint64_t seed, int outputs) {
  base::Random random(seed);
  tensors[prefix + ".mean"] = random_tensor({inputs}, 1.0, random);
  schemas::Tensor scale = random_tensor({inputs}, 0.3, random);
  scale.data[3] = 0.0f;  // a constant feature
  tensors[prefix + ".scale"] = std::move(scale);
  std::vector<std::int64_t> sizes(hidden.begin(), hidden.end());
  sizes.push_back(outputs);
  std::int64_t in = inputs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string layer = prefix + "." + std::to_string(i);
    tensors[layer + ".weight"] = random_tensor({sizes[i], in}, 0.5, random);
    tensors[layer + ".bias"] = random_tensor({sizes[i]}, 0.3, random);
    in = sizes[i];
  }
}

schemas::Bundle toy_bundle(std::int64_t vocab_size, int window, std::uint64_t seed) {
  constexpr int kPhi = runtime::kDetectorWidth, kBoth = kPhi + runtime::kCandidateWidth;
  schemas::Bundle bundle;
  bundle.base_model = {"toy", {"LlamaForCausalLM"}, vocab_size,           vocab_size + 8,
                       64,    std::string(64, 'a'), std::string(64, 'b'), "Apache-2.0"};
  bundle.producer_version = std::string(base::version());
  bundle.producer_commit = "unknown";
  bundle.feature_names.assign(runtime::kDetectorFeatures.begin(), runtime::kDetectorFeatures.end());

  schemas::PrecisionEntry mlp = entry(window, "threshold");
  mlp.detector = info("mlp", "mlp.detector", 3);
  mlp.corrector = info("mlp", "mlp.corrector", 3);
  mlp.corrector.mass = true;
  add_network(bundle.tensors, "mlp.detector", kPhi, {40, 17}, seed);
  add_network(bundle.tensors, "mlp.corrector.shape", kBoth, {40, 17}, seed + 1);
  add_network(bundle.tensors, "mlp.corrector.mass", kPhi, {9, 5}, seed + 2);

  schemas::PrecisionEntry linear = entry(window, "threshold");
  linear.detector = info("linear", "linear.detector", 1);
  linear.corrector = info("linear", "linear.corrector", 1);
  add_network(bundle.tensors, "linear.detector", kPhi, {}, seed + 3);
  add_network(bundle.tensors, "linear.corrector.shape", kBoth, {}, seed + 4);

  schemas::PrecisionEntry always = mlp, off = mlp, none = linear;
  always.mode = "always";
  always.detector = info("constant", "", 0);
  always.detector.constant_risk = 0.25;
  off.mode = "off";
  none.corrector = info("none", "", 0);

  bundle.precisions = {
      {"always", always}, {"linear", linear}, {"mlp", mlp}, {"none", none}, {"off", off}};
  for (auto& [name, precision] : bundle.precisions) precision.corrector.inputs = {"logits"};
  return bundle;
}

schemas::Bundle toy_context_bundle(std::int64_t vocab_size, int window, std::uint64_t seed,
                                   std::int64_t hidden_size) {
  schemas::Bundle bundle = toy_bundle(vocab_size, window, seed);
  bundle.base_model.hidden_size = hidden_size;
  schemas::PrecisionEntry context = bundle.precisions.at("always");
  context.corrector.tensors = "context.corrector";
  context.corrector.inputs = {"logits", "context"};
  constexpr int kInputs =
      runtime::kDetectorWidth + runtime::kCandidateWidth + runtime::kContextWidth;
  add_network(bundle.tensors, "context.corrector.shape", kInputs, {40, 17}, seed + 5);
  add_network(bundle.tensors, "context.corrector.mass", runtime::kDetectorWidth, {9, 5}, seed + 6);
  bundle.precisions["context"] = context;

  schemas::PrecisionEntry whole = context, transformer = context;
  whole.corrector.form = "window";
  whole.corrector.tensors = "window.corrector";
  constexpr int kOwn = kInputs - runtime::kDetectorWidth;
  add_network(bundle.tensors, "window.corrector.shape", runtime::kDetectorWidth + window * kOwn,
              {23, 17}, seed + 9, window);
  add_network(bundle.tensors, "window.corrector.mass", runtime::kDetectorWidth, {9, 5}, seed + 10);
  bundle.precisions["window"] = whole;

  schemas::PrecisionEntry hidden = context;
  hidden.corrector.inputs = {"logits", "context", "tokens", "hidden"};
  hidden.corrector.tensors = "hidden.corrector";
  hidden.corrector.rank = 5;
  const int query = runtime::kDetectorWidth + static_cast<int>(hidden_size);
  add_network(bundle.tensors, "hidden.corrector.shape", kInputs, {40, 17}, seed + 11);
  add_network(bundle.tensors, "hidden.corrector.mass", runtime::kDetectorWidth, {9, 5}, seed + 12);
  add_network(bundle.tensors, "hidden.corrector.query", query, {}, seed + 13, 5);
  base::Random random(seed + 14);
  bundle.tensors["hidden.corrector.tokens"] = random_tensor({vocab_size, 5}, 0.2, random);
  bundle.precisions["hidden"] = hidden;

  transformer.corrector.architecture = "transformer";
  transformer.corrector.tensors = "transformer.corrector";
  transformer.corrector.layers = 6, transformer.corrector.heads = 2;
  transformer.corrector.mass_layers = 3;
  add_transformer(bundle.tensors, "transformer.corrector.shape", kInputs, seed + 7);
  add_network(bundle.tensors, "transformer.corrector.mass", runtime::kDetectorWidth, {9, 5},
              seed + 8);
  bundle.precisions["transformer"] = transformer;
  return bundle;
}

std::vector<float> toy_hidden(std::uint64_t seed) {
  base::Random random(seed, "hidden");
  return random_tensor({64}, 2.0, random).data;
}

std::vector<std::int32_t> toy_text(std::int64_t vocab_size, int tokens, std::uint64_t seed) {
  base::Random random(seed, "text");
  const std::int64_t letters = std::min<std::int64_t>(vocab_size, 12);
  std::vector<std::int32_t> text;
  while (static_cast<int>(text.size()) < tokens) {
    if (text.size() > 20 && random.below(4) == 0) {  // a phrase again
      const std::size_t from = random.below(text.size() - 10);
      const std::vector<std::int32_t> phrase(text.begin() + from, text.begin() + from + 10);
      text.insert(text.end(), phrase.begin(), phrase.end());
    } else {
      const auto letter = static_cast<std::int64_t>(random.below(letters));
      text.push_back(static_cast<std::int32_t>(letter * (vocab_size / letters)));
    }
  }
  text.resize(static_cast<std::size_t>(tokens));
  return text;
}

}  // namespace dgap::test
