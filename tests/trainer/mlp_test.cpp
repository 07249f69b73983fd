#include "trainer/mlp.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/network.hpp"
#include "tests/trainer/data.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {
namespace {

using testing::gradient_error;
using testing::random_parameters;

TEST(Dense, MultiplyAndGradientsEqualPlainLoops) {
  for (const auto& [outputs, inputs, rows] : {std::tuple{1, 3, 16}, {6, 5, 48}, {9, 20, 32}}) {
    const std::int64_t stride = stride_for(rows);
    EXPECT_EQ(stride / 16 % 2, 1);
    const auto w = random_parameters<double>(outputs * inputs, 1.0, 1);
    const auto start = random_parameters<double>(outputs, 1.0, 2);
    const auto x = random_parameters<double>(inputs * stride, 1.0, 3);
    const auto dy = random_parameters<double>(outputs * stride, 1.0, 4);
    std::vector<double> y(outputs * stride), dx(inputs * stride), dw(w.size(), 0.25), sums(outputs);
    multiply({inputs, 1, outputs, inputs}, w.data(), start.data(), x.data(), y.data(), rows,
             stride);
    multiply({1, inputs, inputs, outputs}, w.data(), static_cast<const double*>(nullptr), dy.data(),
             dx.data(), rows, stride);
    add_weight_gradient(outputs, inputs, dy.data(), x.data(), dw.data(), inputs, rows, stride);
    row_sums(outputs, dy.data(), sums.data(), rows, stride);
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < outputs; ++o) {
        double sum = start[o];
        for (int i = 0; i < inputs; ++i) sum += x[i * stride + r] * w[o * inputs + i];
        ASSERT_EQ(y[o * stride + r], sum);
      }
      for (int i = 0; i < inputs; ++i) {
        double sum = 0.0;
        for (int o = 0; o < outputs; ++o) sum += dy[o * stride + r] * w[o * inputs + i];
        ASSERT_EQ(dx[i * stride + r], sum);
      }
    }
    for (int o = 0; o < outputs; ++o) {
      double bias = 0.0;
      for (int r = 0; r < rows; ++r) bias += dy[o * stride + r];
      EXPECT_NEAR(sums[o], bias, 1e-13 * rows);
      for (int i = 0; i < inputs; ++i) {
        double sum = 0.25;
        for (int r = 0; r < rows; ++r) sum += dy[o * stride + r] * x[i * stride + r];
        EXPECT_NEAR(dw[o * inputs + i], sum, 1e-13 * rows);
      }
    }
  }
}

struct Case {
  int shared, own;
  std::vector<int> hidden;
};

const std::vector<Case> kCases = {{0, 20, {}},       {0, 20, {64, 32}}, {20, 7, {}},
                                  {20, 7, {64, 32}}, {20, 7, {13}},     {3, 5, {6, 5, 4}}};

TEST(Mlp, ForwardHasTheBitsOfTheRuntime) {
  for (const Case& c : kCases) {
    const NetworkShape shape(c.shared, c.own, c.hidden, 0);
    const int inputs = c.shared + c.own, segments = 3, width = 32, used = 27;
    const auto parameters = random_parameters<float>(shape.end(), 0.4, 5);
    const auto mean = random_parameters<float>(inputs, 1.0, 6);
    const auto scale = random_parameters<float>(inputs, 2.0, 7);
    const auto raw = random_parameters<float>(segments * (c.shared + used * c.own), 3.0, 8);
    schemas::Tensors tensors;
    shape.store(parameters, mean, scale, "n", tensors);
    const int layers = static_cast<int>(c.hidden.size()) + 1;
    const runtime::Network network(tensors, "n", layers, inputs, 1);

    MlpPass<float> pass(shape, width, segments);
    std::vector<float> expected(segments * width), scratch(network.scratch_floats());
    for (int s = 0; s < segments; ++s) {
      const float* const shared = raw.data() + s * (c.shared + used * c.own);
      const float* const rows = shared + c.shared;
      for (int i = 0; i < c.shared; ++i) {
        pass.shared_inputs()[s * c.shared + i] = (shared[i] - mean[i]) * scale[i];
      }
      for (int r = 0; r < used; ++r) {
        for (int i = 0; i < c.own; ++i) {
          pass.own_inputs()[i * pass.stride() + s * width + r] =
              (rows[r * c.own + i] - mean[c.shared + i]) * scale[c.shared + i];
        }
      }
      network.forward({shared, static_cast<std::size_t>(c.shared)}, rows, used,
                      expected.data() + s * width, scratch.data());
    }
    const float* const got = pass.forward(parameters.data(), segments);
    for (int s = 0; s < segments; ++s) {
      EXPECT_EQ(std::memcmp(got + s * width, expected.data() + s * width, used * sizeof(float)), 0)
          << c.shared << " " << c.own << " " << c.hidden.size();
    }
  }
}

TEST(Mlp, GradientEqualsDifferenceQuotients) {
  for (const Case& c : kCases) {
    const NetworkShape shape(c.shared, c.own, c.hidden,
                             2);  // two parameters of another network first
    const int segments = 2, width = 16;
    MlpPass<double> pass(shape, width, segments);
    const auto x = random_parameters<double>(c.own * pass.stride(), 2.0, 9);
    const auto shared = random_parameters<double>(segments * c.shared, 2.0, 10);
    const auto upstream = random_parameters<double>(segments * width, 1.0, 11);
    std::copy(x.begin(), x.end(), pass.own_inputs());
    std::copy(shared.begin(), shared.end(), pass.shared_inputs());
    const auto f = [&](const std::vector<double>& p) {
      const double* const y = pass.forward(p.data(), segments);
      double sum = 0.0;
      for (int r = 0; r < segments * width; ++r) sum += upstream[r] * y[r];
      return sum;
    };
    const auto parameters = random_parameters<double>(shape.end(), 0.5, 12);
    f(parameters);
    std::vector<double> gradient(parameters.size());
    pass.backward(parameters.data(), upstream.data(), gradient.data());
    EXPECT_EQ(gradient[0], 0.0);
    EXPECT_LT(gradient_error(gradient, parameters, f), 1e-8) << c.shared << " " << c.hidden.size();
  }
}

TEST(Mlp, BeginsAsTheConstantZero) {
  const NetworkShape shape(0, 20, std::vector<int>{8}, 0);
  std::vector<float> parameters(shape.end(), 9.0f);
  base::Random random(1);
  shape.initialise(parameters, random);
  MlpPass<float> pass(shape, 16, 1);
  std::fill_n(pass.own_inputs(), 20 * pass.stride(), 1.5f);
  for (int r = 0; r < 16; ++r) EXPECT_EQ(pass.forward(parameters.data(), 1)[r], 0.0f);
  double squares = 0.0;
  for (int i = 0; i < 160; ++i) squares += double{parameters[i]} * parameters[i];
  EXPECT_NEAR(squares / 160, 1.0 / 20, 0.01);  // variance 1 / inputs
}

}  // namespace
}  // namespace dgap::trainer
