#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "runtime/models.hpp"
#include "runtime/network.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap::runtime {
namespace {

/// The definition, one fused multiplication and addition at a time.
float plain_forward(const schemas::Tensors& tensors, const std::string& prefix, int layers,
                    std::vector<float> x) {
  const auto& mean = tensors.at(prefix + ".mean").data;
  const auto& scale = tensors.at(prefix + ".scale").data;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean[i]) * scale[i];
  for (int l = 0; l < layers; ++l) {
    const std::string layer = prefix + "." + std::to_string(l);
    const auto& weight = tensors.at(layer + ".weight").data;
    std::vector<float> y = tensors.at(layer + ".bias").data;
    for (std::size_t o = 0; o < y.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[o] = std::fma(x[i], weight[o * x.size() + i], y[o]);
      }
      if (l + 1 < layers) y[o] = gelu(y[o]);
    }
    x = y;
  }
  return x[0];
}

struct Case {
  std::initializer_list<int> hidden;
  int layers;
};

TEST(Network, HasTheBitsOfItsDefinition) {
  for (const Case& shape : {Case{{}, 1}, Case{{1}, 2}, Case{{64, 32}, 3}, Case{{33, 7, 16}, 4}}) {
    schemas::Tensors tensors;
    test::add_network(tensors, "net", 27, shape.hidden, 5);
    const Network network(tensors, "net", shape.layers, 27, 1);
    base::Random random(3);
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 64}) {
      std::vector<float> x(static_cast<std::size_t>(rows) * 27);
      for (float& v : x) v = static_cast<float>(random.normal());
      std::vector<float> out(static_cast<std::size_t>(rows)), scratch(network.scratch_floats());
      network.forward({}, x.data(), rows, out.data(), scratch.data());
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::vector<float> row(x.begin() + r * 27, x.begin() + (r + 1) * 27);
        const float expected = plain_forward(tensors, "net", shape.layers, row);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out[static_cast<std::size_t>(r)]),
                  std::bit_cast<std::uint32_t>(expected));
      }
    }
  }
}

TEST(Network, SharedInputsChangeNoBit) {
  schemas::Tensors tensors;
  test::add_network(tensors, "net", 27, {40, 17}, 6);
  const Network network(tensors, "net", 3, 27, 1);
  base::Random random(4);
  std::vector<float> shared(20), own(7 * 13), full;
  for (float& v : shared) v = static_cast<float>(random.normal());
  for (float& v : own) v = static_cast<float>(random.normal());
  for (std::size_t r = 0; r < 13; ++r) {
    full.insert(full.end(), shared.begin(), shared.end());
    full.insert(full.end(), own.begin() + static_cast<std::ptrdiff_t>(7 * r),
                own.begin() + static_cast<std::ptrdiff_t>(7 * r + 7));
  }
  std::vector<float> a(13), b(13), scratch(network.scratch_floats());
  network.forward({}, full.data(), 13, a.data(), scratch.data());
  network.forward(shared, own.data(), 13, b.data(), scratch.data());
  EXPECT_EQ(a, b);
}

TEST(Network, UsesNoMoreScratchThanItSays) {
  schemas::Tensors tensors;
  test::add_network(tensors, "net", 27, {3, 70}, 6);
  const Network network(tensors, "net", 3, 27, 1);
  std::vector<float> scratch(network.scratch_floats() + 1, -77.0f), x(27 * 9), out(9);
  network.forward({}, x.data(), 9, out.data(), scratch.data());
  EXPECT_EQ(scratch.back(), -77.0f);
}

TEST(Network, NamesTheTensorThatDoesNotFit) {
  schemas::Tensors tensors;
  test::add_network(tensors, "net", 20, {8}, 1);
  const auto message = [&](int inputs, int layers) {
    try {
      Network(tensors, "net", layers, inputs, 1);
    } catch (const base::IoError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(20, 2), "no error");
  EXPECT_NE(message(21, 2).find("net.mean has shape [20]; expected [21]"), std::string::npos);
  EXPECT_NE(message(20, 3).find("net.2.bias"), std::string::npos);
  EXPECT_NE(message(20, 1).find("net.0.bias has shape [8]; expected [1]"), std::string::npos);
  EXPECT_NE(message(20, 0).find("no layers"), std::string::npos);
}

TEST(Corrector, AddsTheMassOffsetToEveryCandidate) {
  const schemas::Bundle bundle = test::toy_bundle(500, 8);
  schemas::NetworkInfo info = bundle.precisions.at("mlp").corrector;
  const Corrector with(info, bundle.tensors);
  info.mass = false;
  const Corrector without(info, bundle.tensors);
  const std::vector<float> window = {3.0f, 2.0f, 1.5f, 1.0f, 0.0f, -1.0f, -1.0f, -2.0f};
  float phi[kDetectorWidth];
  detector_features(window, 4.0, 2.0f, phi);
  Corrector::Scratch scratch = with.scratch(8);
  std::vector<float> a(8), b(8);
  with.deltas({phi, window, 4.0, {}, nullptr}, a.data(), scratch);
  without.deltas({phi, window, 4.0, {}, nullptr}, b.data(), scratch);
  const float offset =
      plain_forward(bundle.tensors, "mlp.corrector.mass", 3, std::vector<float>(phi, phi + 20));
  EXPECT_NE(offset, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(a[i], b[i] + offset);
}

TEST(Models, ConstantDetectorAndNoCorrector) {
  const schemas::Bundle bundle = test::toy_bundle(500, 8);
  const Detector detector(bundle.precisions.at("always").detector, bundle.tensors);
  EXPECT_EQ(detector.risk(nullptr, nullptr), 0.25f);
  const Corrector corrector(bundle.precisions.at("none").corrector, bundle.tensors);
  Corrector::Scratch scratch = corrector.scratch(2);
  const std::vector<float> window = {1.0f, 0.0f};
  std::vector<float> delta(2, 9.0f);
  const float phi[kDetectorWidth] = {};
  corrector.deltas({phi, window, 2.0, {}, nullptr}, delta.data(), scratch);
  EXPECT_EQ(delta, std::vector<float>({0.0f, 0.0f}));
}

}  // namespace
}  // namespace dgap::runtime
