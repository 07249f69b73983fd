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
  int outputs = 1;
};

const std::vector<Case> kCases = {{0, 20, {}},       {0, 20, {64, 32}}, {20, 7, {}},
                                  {20, 7, {64, 32}}, {20, 7, {13}},     {3, 5, {6, 5, 4}},
                                  {20, 7, {1}},      {0, 40, {33}, 9},  {0, 40, {}, 21}};

/// Copies rows of `width` numbers to the pass's inputs.
template <class Real>
void feed(MlpPass<Real>& pass, const std::vector<Real>& own, int width) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / width, column = std::int64_t(i) % width;
    pass.own_inputs()[row * pass.own_stride() + column] = own[i];
  }
}

TEST(Mlp, ForwardHasTheBitsOfTheRuntime) {
  for (const Case& c : kCases) {
    const NetworkShape shape(c.shared, c.own, c.hidden, 0, c.outputs);
    const int inputs = c.shared + c.own, rows = 27;
    const auto parameters = random_parameters<float>(shape.end(), 0.4, 5);
    const auto mean = random_parameters<float>(inputs, 1.0, 6);
    const auto scale = random_parameters<float>(inputs, 2.0, 7);
    schemas::Tensors tensors;
    shape.store(parameters, mean, scale, "n", tensors);
    const int layers = static_cast<int>(c.hidden.size()) + 1;
    const runtime::Network network(tensors, "n", layers, inputs, c.outputs);

    MlpPass<float> pass(shape, 40);
    for (const std::uint64_t seed : {8, 9}) {  // buffers may be used
      const auto shared = random_parameters<float>(c.shared, 3.0, seed);
      auto own = random_parameters<float>(rows * c.own, 3.0, seed + 10);
      std::vector<float> expected(rows * c.outputs), scratch(network.scratch_floats());
      network.forward(shared, own.data(), rows, expected.data(), scratch.data());
      for (int i = 0; i < c.shared; ++i) pass.shared_inputs()[i] = (shared[i] - mean[i]) * scale[i];
      for (int i = 0; i < rows * c.own; ++i) {
        const int input = c.shared + i % c.own;
        own[i] = (own[i] - mean[input]) * scale[input];
      }
      feed(pass, own, c.own);
      pass.begin(parameters.data());
      const float* const got = pass.forward(rows);
      for (int r = 0; r < rows; ++r) {
        EXPECT_EQ(std::memcmp(got + r * pass.output_stride(), expected.data() + r * c.outputs,
                              c.outputs * sizeof(float)),
                  0)
            << c.shared << " " << c.own << " " << c.hidden.size() << " row " << r;
      }
    }
  }
}

/// Gathered over two groups of rows, each with shared inputs of its own.
TEST(Mlp, GradientEqualsDifferenceQuotients) {
  for (const Case& c : kCases) {
    const NetworkShape shape(c.shared, c.own, c.hidden, 2, c.outputs);  // parameters before it
    MlpPass<double> pass(shape, 16);
    const int sizes[] = {11, 7};
    const auto upstream = random_parameters<double>(16 * 16 * 4, 1.0, 11);
    std::vector<double> gradient(shape.end());
    const auto f = [&](const std::vector<double>& p, bool backward) {
      pass.begin(p.data());
      double sum = 0.0;
      for (const int rows : sizes) {
        const auto shared = random_parameters<double>(c.shared, 2.0, rows);
        std::copy(shared.begin(), shared.end(), pass.shared_inputs());
        feed(pass, random_parameters<double>(rows * c.own, 2.0, rows + 100), c.own);
        const double* const y = pass.forward(rows);
        std::vector<double> up(rows * pass.output_stride());
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < c.outputs; ++o) {
            const std::int64_t at = r * pass.output_stride() + o;
            up[at] = upstream[r * c.outputs + o];
            sum += up[at] * y[at];
          }
        }
        if (backward) pass.backward(up.data());
      }
      if (backward) pass.add_gradient(gradient.data());
      return sum;
    };
    const auto parameters = random_parameters<double>(shape.end(), 0.5, 12);
    f(parameters, true);
    EXPECT_EQ(gradient[0], 0.0);
    const auto value = [&](const std::vector<double>& p) { return f(p, false); };
    EXPECT_LT(gradient_error(gradient, parameters, value), 1e-8)
        << c.shared << " " << c.hidden.size();
  }
}

TEST(Mlp, BeginsAsTheConstantZero) {
  const NetworkShape shape(0, 20, std::vector<int>{8}, 0);
  std::vector<float> parameters(shape.end(), 9.0f);
  base::Random random(1);
  shape.initialise(parameters, random);
  MlpPass<float> pass(shape, 16);
  feed(pass, std::vector<float>(16 * 20, 1.5f), 20);
  pass.begin(parameters.data());
  for (int r = 0; r < 16; ++r) EXPECT_EQ(pass.forward(16)[r], 0.0f);
  double squares = 0.0;
  for (int i = 0; i < 160; ++i) squares += double{parameters[i]} * parameters[i];
  EXPECT_NEAR(squares / 160, 1.0 / 20, 0.01);  // variance 1 / inputs
}

}  // namespace
}  // namespace dgap::trainer
