// On a real model, where there is one: $DGAP_TEST_MODEL or models/*.gguf in the source tree.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/scheme/scheme.hpp"
#include "tests/engine/model/tiny_model.hpp"

namespace dgap::engine {
namespace {

std::string model_path() {
  if (const char* path = std::getenv("DGAP_TEST_MODEL")) return path;
  const std::filesystem::path folder = std::filesystem::path(DGAP_SOURCE_DIR) / "models";
  if (!std::filesystem::is_directory(folder)) return "";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".gguf") return entry.path().string();
  return "";
}

/// Mean KL(reference || other) over rows, nats.
double mean_kl(const std::vector<float>& reference, const std::vector<float>& other,
               std::size_t vocab) {
  const std::size_t rows = reference.size() / vocab;
  double total = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* p = reference.data() + r * vocab;
    const float* q = other.data() + r * vocab;
    const auto lse = [vocab](const float* z) {
      double top = z[0], sum = 0;
      for (std::size_t i = 0; i < vocab; ++i) top = std::max(top, double{z[i]});
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(z[i] - top);
      return top + std::log(sum);
    };
    const double lp = lse(p), lq = lse(q);
    for (std::size_t i = 0; i < vocab; ++i)
      total += std::exp(p[i] - lp) * ((p[i] - lp) - (q[i] - lq));
  }
  return total / static_cast<double>(rows);
}

TEST(RealModel, BlockedDecodingEqualsStepwiseBitForBit) {
  const std::string path = model_path();
  if (path.empty()) GTEST_SKIP() << "no model: set DGAP_TEST_MODEL";
  for (const char* compute : {"f32", "bf16"}) {
    const auto decoder = open_decoder(path, "auto", "cpu", {compute, ExactCacheType::f16});
    const auto text = testing::random_text(324, decoder->model().vocab_size);
    const std::span<const std::int32_t> tokens(text);
    const auto exact = decoder->begin(324);
    exact->append(tokens.first(300), nullptr);
    testing::KeepLogits reference(decoder->model());
    exact->fork(schemas::preset("exact"), 300)->append(tokens.subspan(300), &reference);
    double last = 1e9;
    for (const char* name : {"K1V1", "K8V8"}) {
      testing::KeepLogits steps(decoder->model()), block(decoder->model());
      exact->fork(schemas::preset(name), 300)->append_stepwise(tokens.subspan(300), &steps);
      exact->fork(schemas::preset(name), 300)->append(tokens.subspan(300), &block);
      EXPECT_TRUE(steps.values == block.values) << name << " " << compute;
      const double kl = mean_kl(reference.values, block.values,
                                static_cast<std::size_t>(decoder->model().vocab_size));
      EXPECT_LT(kl, last / 100) << name << " " << compute;
      last = kl;
    }
    EXPECT_LT(last, 2e-3);
  }
}

}  // namespace
}  // namespace dgap::engine
