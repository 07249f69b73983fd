#include "runtime/transformer.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "tests/trainer/data.hpp"
#include "trainer/transformer_pass.hpp"

namespace dgap::trainer {
namespace {

using testing::gradient_error;
using testing::random_parameters;

const schemas::TransformerConfig kSizes[] = {{.width = 8, .heads = 2, .blocks = 1, .hidden = 10},
                                             {.width = 6, .heads = 1, .blocks = 2, .hidden = 5}};
constexpr int kShared = 3, kOwn = 5, kWidth = 32;
const std::vector<std::int32_t> kWindows = {32, 1, 19};  // candidates of each segment

/// Inputs of all segments, 0 beyond their candidates.
template <class Real>
void feed(TransformerPass<Real>& pass, const std::vector<Real>& shared,
          const std::vector<Real>& own) {
  std::copy(shared.begin(), shared.end(), pass.shared_inputs());
  for (int i = 0; i < kOwn; ++i) {
    for (std::size_t s = 0; s < kWindows.size(); ++s) {
      for (int c = 0; c < kWidth; ++c) {
        const std::size_t at = s * kWidth + static_cast<std::size_t>(c);
        pass.own_inputs()[i * pass.stride() + static_cast<std::int64_t>(at)] =
            c < kWindows[s] ? own[at * kOwn + static_cast<std::size_t>(i)] : Real(0);
      }
    }
  }
}

TEST(Transformer, ForwardHasTheBitsOfTheRuntime) {
  for (const schemas::TransformerConfig& size : kSizes) {
    const NetworkShape shape(kShared, kOwn, size, 0);
    const auto parameters = random_parameters<float>(shape.end(), 0.6, 1);
    const auto shared = random_parameters<float>(3 * kShared, 2.0, 2);
    const auto own = random_parameters<float>(3 * kWidth * kOwn, 2.0, 3);
    schemas::Tensors tensors;
    const std::vector<float> mean(kShared + kOwn, 0.0f), scale(kShared + kOwn, 1.0f);
    shape.store(parameters, mean, scale, "t", tensors);
    const runtime::Transformer served(tensors, "t", runtime::transformer_layers(size.blocks),
                                      size.heads, kShared + kOwn);
    TransformerPass<float> pass(shape, kWidth, 4);
    for (int repetition = 0; repetition < 2; ++repetition) {  // buffers may be used
      feed(pass, shared, own);
      const float* const found = pass.forward(parameters.data(), kWindows);
      for (std::size_t s = 0; s < kWindows.size(); ++s) {
        const int count = kWindows[s];
        std::vector<float> expected(count), scratch(served.scratch_floats(count));
        served.forward({shared.data() + s * kShared, kShared}, own.data() + s * kWidth * kOwn,
                       count, expected.data(), scratch.data());
        EXPECT_EQ(std::memcmp(found + s * kWidth, expected.data(), count * sizeof(float)), 0) << s;
      }
    }
  }
}

TEST(Transformer, GradientEqualsDifferenceQuotients) {
  for (const schemas::TransformerConfig& size : kSizes) {
    const NetworkShape shape(kShared, kOwn, size, 2);  // two parameters of another network first
    TransformerPass<double> pass(shape, kWidth, 4);
    const auto shared = random_parameters<double>(3 * kShared, 2.0, 2);
    const auto own = random_parameters<double>(3 * kWidth * kOwn, 2.0, 3);
    auto upstream = random_parameters<double>(3 * kWidth, 1.0, 4);
    for (std::size_t s = 0; s < kWindows.size(); ++s) {
      std::fill(upstream.begin() + s * kWidth + kWindows[s], upstream.begin() + (s + 1) * kWidth,
                0.0);
    }
    feed(pass, shared, own);
    const auto f = [&](const std::vector<double>& p) {
      const double* const y = pass.forward(p.data(), kWindows);
      double sum = 0.0;
      for (std::size_t r = 0; r < upstream.size(); ++r) sum += upstream[r] * y[r];
      return sum;
    };
    const auto parameters = random_parameters<double>(shape.end(), 0.5, 5);
    f(parameters);
    std::vector<double> gradient(parameters.size());
    pass.backward(parameters.data(), upstream.data(), gradient.data());
    EXPECT_EQ(gradient[0], 0.0);
    EXPECT_LT(gradient_error(gradient, parameters, f), 1e-7) << size.blocks;
  }
}

/// A candidate's change depends on the others.
TEST(Transformer, CandidatesSeeEachOther) {
  const NetworkShape shape(kShared, kOwn, kSizes[0], 0);
  const auto parameters = random_parameters<float>(shape.end(), 0.6, 1);
  const auto shared = random_parameters<float>(3 * kShared, 2.0, 2);
  auto own = random_parameters<float>(3 * kWidth * kOwn, 2.0, 3);
  TransformerPass<float> pass(shape, kWidth, 3);
  feed(pass, shared, own);
  const float before = pass.forward(parameters.data(), kWindows)[0];
  own[kOwn * 7] += 1.0f;
  feed(pass, shared, own);
  EXPECT_NE(pass.forward(parameters.data(), kWindows)[0], before);
}

TEST(Transformer, RefusesShapesThatDoNotFit) {
  const NetworkShape shape(kShared, kOwn, kSizes[0], 0);
  const std::vector<float> parameters(shape.end()), inputs(kShared + kOwn);
  schemas::Tensors tensors;
  shape.store(parameters, inputs, inputs, "t", tensors);
  EXPECT_NO_THROW(runtime::Transformer(tensors, "t", 6, 2, 8));
  EXPECT_THROW(runtime::Transformer(tensors, "t", 6, 3, 8), base::IoError);
  EXPECT_THROW(runtime::Transformer(tensors, "t", 5, 2, 8), base::IoError);
  EXPECT_THROW(runtime::Transformer(tensors, "t", 10, 2, 8), base::IoError);
  EXPECT_THROW(runtime::Transformer(tensors, "t", 6, 2, 9), base::IoError);
}

}  // namespace
}  // namespace dgap::trainer
