#include "trainer/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "runtime/activation.hpp"
#include "runtime/network.hpp"
#include "statistics/reliability.hpp"

namespace dgap::trainer {
namespace {

struct Drawn {
  std::vector<float> outputs;
  std::vector<std::uint8_t> labels;
};

/// Outputs f whose labels are 1 with probability sigmoid(scale f + offset).
Drawn drawn(int count, double scale, double offset, std::uint64_t seed) {
  base::Random random(seed);
  Drawn d;
  for (int i = 0; i < count; ++i) {
    const double f = 2.0 * random.normal();
    d.outputs.push_back(static_cast<float>(f));
    d.labels.push_back(random.uniform() < 1.0 / (1.0 + std::exp(-(scale * f + offset))) ? 1 : 0);
  }
  return d;
}

double error(const Drawn& d, const schemas::RiskScale& c) {
  std::vector<float> risks;
  for (const float f : d.outputs) {
    risks.push_back(runtime::sigmoid(static_cast<float>(c.scale * f + c.offset)));
  }
  return statistics::reliability(risks, d.labels).error;
}

TEST(Calibration, FindsScaleAndOffset) {
  for (const auto& [scale, offset] : {std::pair{0.4, -1.0}, {1.0, 0.0}, {2.5, 0.7}}) {
    const Drawn d = drawn(40000, scale, offset, 1);
    const schemas::RiskScale c = calibrate(d.outputs, d.labels);
    // The standard error of 40,000 steps is about .02 for the largest.
    EXPECT_NEAR(c.scale, scale, 0.1);
    EXPECT_NEAR(c.offset, offset, 0.1);
    EXPECT_LT(error(drawn(40000, scale, offset, 2), c), 0.015);
  }
  const Drawn bold = drawn(40000, 0.4, -1.0, 3);
  EXPECT_GT(error(bold, {}), 0.15);
}

/// The optimum, by the gradient of the pulled labels' cross-entropy.
TEST(Calibration, IsWhereTheGradientVanishes) {
  const Drawn d = drawn(300, 0.7, 0.3, 4);
  const schemas::RiskScale c = calibrate(d.outputs, d.labels);
  const double n1 = static_cast<double>(std::count(d.labels.begin(), d.labels.end(), 1));
  const double n0 = 300.0 - n1;
  double by_scale = 0.0, by_offset = 0.0;
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    const double target = d.labels[i] ? (n1 + 1) / (n1 + 2) : 1 / (n0 + 2);
    const double p = 1.0 / (1.0 + std::exp(-(c.scale * d.outputs[i] + c.offset)));
    by_scale += (p - target) * d.outputs[i], by_offset += p - target;
  }
  EXPECT_NEAR(by_scale, 0.0, 1e-6);
  EXPECT_NEAR(by_offset, 0.0, 1e-6);
}

TEST(Calibration, LeavesWhatCannotBeCalibrated) {
  const auto is_identity = [](const schemas::RiskScale& c) {
    return c.scale == 1.0 && c.offset == 0.0;
  };
  const std::vector<float> outputs = {-1.0f, 0.0f, 2.0f, 3.0f};
  EXPECT_TRUE(is_identity(calibrate(outputs, std::vector<std::uint8_t>{1, 1, 1, 1})));
  EXPECT_TRUE(is_identity(calibrate(outputs, std::vector<std::uint8_t>{0, 0, 0, 0})));
  EXPECT_TRUE(is_identity(calibrate({}, {})));
  EXPECT_TRUE(is_identity(calibrate(outputs, std::vector<std::uint8_t>{1, 1, 0, 0})));  // backwards
  const schemas::RiskScale apart = calibrate(outputs, std::vector<std::uint8_t>{0, 0, 1, 1});
  EXPECT_TRUE(std::isfinite(apart.scale) && apart.scale > 0.0);  // separable: the pull bounds it
  const schemas::RiskScale flat =
      calibrate(std::vector<float>(4, 0.5f), std::vector<std::uint8_t>{0, 1, 0, 1});
  EXPECT_TRUE(std::isfinite(flat.scale) && std::isfinite(flat.offset));
}

TEST(Calibration, FoldedIsWhatTheNetworkGives) {
  base::Random random(5);
  schemas::Tensors tensors;
  const auto fill = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    schemas::Tensor tensor{shape, {}};
    for (; count > 0; --count) tensor.data.push_back(static_cast<float>(random.normal()));
    tensors["d." + name] = tensor;
  };
  fill("mean", {3}), fill("scale", {3});
  fill("0.weight", {5, 3}), fill("0.bias", {5}), fill("1.weight", {1, 5}), fill("1.bias", {1});
  const auto outputs = [&](const std::vector<float>& rows) {
    const runtime::Network network(tensors, "d", 2, 3, 1);
    std::vector<float> scratch(network.scratch_floats()), found(rows.size() / 3);
    network.forward({}, rows.data(), static_cast<std::int64_t>(found.size()), found.data(),
                    scratch.data());
    return found;
  };
  std::vector<float> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(static_cast<float>(random.normal()));
  const std::vector<float> before = outputs(rows);
  fold({0.5, 0.25}, "d", 2, tensors);  // powers of two: exact but for the last sum
  const std::vector<float> after = outputs(rows);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], 0.5f * before[i] + 0.25f, 1e-5f);
  }
}

}  // namespace
}  // namespace dgap::trainer
