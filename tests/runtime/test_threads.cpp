#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/random.hpp"
#include "runtime/include/dgap/runtime.h"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

/// One bundle in many threads, through the C ABI: every thread gets the bits that one alone gets.
/// (scripts/test --tsan watches it.)
namespace dgap {
namespace {

constexpr std::int64_t kVocabulary = 701;
constexpr int kWindow = 24, kThreads = 16, kRows = 12;
constexpr const char* kPrecisions[] = {"mlp",     "linear", "always",      "off",
                                       "context", "window", "transformer", "hidden"};

template <class Handle>
using Owned = std::unique_ptr<Handle, void (*)(Handle*)>;

Owned<dgap_bundle> open(const std::filesystem::path& folder) {
  schemas::Bundle bundle = test::toy_context_bundle(kVocabulary, kWindow);
  schemas::PrecisionEntry& linear = bundle.precisions.at("linear");
  linear.window_mass = 0.8;
  linear.online = schemas::OnlineRate{0.3, 0.02, 0.0, 1.0};
  test::write_toy_bundle(folder, bundle);
  dgap_bundle* opened = nullptr;
  EXPECT_EQ(dgap_bundle_open(folder.c_str(), &opened), DGAP_OK) << dgap_last_error();
  return {opened, &dgap_bundle_close};
}

/// What one thread does with the bundle: each precision's restorer over a sequence of rows, with a
/// context that grows and is rolled back, a shared one, and a controller; and calls that fail.
std::vector<float> work(const dgap_bundle* bundle, const dgap_context* shared, std::uint64_t seed) {
  std::vector<float> all;
  std::vector<float> state = test::toy_hidden(seed);
  const dgap_logits hidden = {state.data(), DGAP_F32, 1, 64, 0, 4};
  for (const char* precision : kPrecisions) {
    dgap_restorer* restorer = nullptr;
    dgap_controller* controller = nullptr;
    dgap_context* context = nullptr;
    if (dgap_restorer_create(bundle, precision, &restorer) != DGAP_OK) return {};
    if (dgap_controller_create(bundle, precision, &controller) == DGAP_OK)
      dgap_restorer_set_controller(restorer, controller);
    dgap_context_create(bundle, 4, &context);
    const std::vector<std::int32_t> text = test::toy_text(kVocabulary, 60, seed);
    dgap_context_begin(context, text.data(), std::ssize(text));
    base::Random random(seed, precision);
    for (int r = 0; r < kRows; ++r) {
      std::vector<float> row = test::random_row(kVocabulary, 1 + r % 4, 0, random);
      const dgap_logits view = {row.data(), DGAP_F32, 1, kVocabulary, 0, 4};
      dgap_result scored{}, result{};
      dgap_restorer_score(restorer, &view, &scored);
      dgap_restorer_restore_with(restorer, r % 2 == 0 ? &shared : &context, &hidden, &view,
                                 &result);
      const std::int32_t ids[] = {r, 7 * r};
      dgap_context_accept(context, ids, 2);
      dgap_context_roll_back(context, 1);
      all.insert(all.end(), row.begin(), row.end());
      all.push_back(scored.risk), all.push_back(result.risk);
      all.push_back(static_cast<float>(result.verdict));
    }
    dgap_context_destroy(context);
    dgap_controller_destroy(controller);
    dgap_restorer_destroy(restorer);
    dgap_restorer* none = nullptr;
    const std::string missing = "no precision of seed " + std::to_string(seed);
    dgap_restorer_create(bundle, missing.c_str(), &none);
    const bool own = std::string(dgap_last_error()).find(missing) != std::string::npos;
    all.push_back(own ? 1.0f : 0.0f);
  }
  return all;
}

TEST(Threads, ShareABundle) {
  const test::TemporaryFolder folder;
  const Owned<dgap_bundle> bundle = open(folder.path() / "bundle");
  dgap_context* made = nullptr;
  ASSERT_EQ(dgap_context_create(bundle.get(), 0, &made), DGAP_OK);
  const Owned<dgap_context> shared(made, &dgap_context_destroy);
  const std::vector<std::int32_t> text = test::toy_text(kVocabulary, 200);
  ASSERT_EQ(dgap_context_begin(made, text.data(), std::ssize(text)), DGAP_OK);

  std::vector<std::vector<float>> found(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { found[t] = work(bundle.get(), made, t); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    const std::vector<float> alone = work(bundle.get(), made, t);
    ASSERT_EQ(alone.size(), std::size(kPrecisions) * (kRows * (kVocabulary + 3) + 1));
    EXPECT_TRUE(alone == found[t]) << t;
    EXPECT_EQ(alone.back(), 1.0f);  // the message was its own
  }
}

}  // namespace
}  // namespace dgap
