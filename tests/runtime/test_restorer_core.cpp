#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "base/half.hpp"
#include "base/random.hpp"
#include "runtime/features.hpp"
#include "runtime/restorer.hpp"
#include "runtime/row_scan.hpp"
#include "tests/runtime/counting_new.hpp"
#include "tests/runtime/level.hpp"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap::runtime {
namespace {

constexpr std::int64_t kVocabulary = 5003;  // not so few that all of a row is summed in f64
constexpr int kWindow = 77;

TEST(Restorer, AllocatesNothingAfterCreation) {
  const long some = test::allocations();
  schemas::Bundle bundle = test::toy_context_bundle(kVocabulary, kWindow);
  bundle.precisions.at("linear").window_mass = 0.7;
  ASSERT_GT(test::allocations(), some);  // it counts
  Context context(kVocabulary, 301);
  context.begin(test::toy_text(kVocabulary, 300));
  std::vector<std::uint16_t> halves(kVocabulary);
  std::vector<float> state = test::toy_hidden();
  const dgap_logits hidden{state.data(), DGAP_F32, 1, 64, 0, 4};
  for (const char* name :
       {"mlp", "linear", "always", "off", "none", "context", "transformer", "window", "hidden"}) {
    Restorer restorer(bundle, name);
    for (test::Row& row : test::hard_rows(kVocabulary)) {
      for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = base::to_half(row.logits[i]);
      dgap_result result{};
      const long before = test::allocations();
      restorer.run({row.logits.data(), DGAP_F32, 1, kVocabulary, 0, 4}, true, &result, &context,
                   &hidden);
      restorer.run({halves.data(), DGAP_F16, 1, kVocabulary, 0, 2}, true, &result, &context,
                   &hidden);
      const std::int32_t id = 7;
      context.accept({&id, 1});
      context.roll_back(1);
      EXPECT_EQ(test::allocations(), before) << name << " " << row.name;
    }
  }
}

/// docs/runtime.md, "Memory": a row and the window's search, and twice the tensors of the
/// precision.
TEST(Restorer, MemoryIsWhatTheRuntimesPageSays) {
  constexpr std::int64_t kLarge = 151'936;
  constexpr int kCandidates = 64;
  const schemas::Bundle bundle = test::toy_context_bundle(kLarge, kCandidates);
  for (const char* name : {"linear", "mlp", "context", "transformer", "window", "hidden"}) {
    std::size_t tensors = 0;
    for (const auto& [tensor, values] : bundle.tensors) {
      const auto& entry = bundle.precisions.at(name);
      const bool own =
          (!entry.detector.tensors.empty() && tensor.starts_with(entry.detector.tensors + ".")) ||
          tensor.starts_with(entry.corrector.tensors + ".");
      tensors += own ? values.data.size() * sizeof(float) : 0;
    }
    const std::size_t before = test::allocated_bytes();
    const Restorer restorer(bundle, name);
    const std::size_t taken = test::allocated_bytes() - before;
    RecordProperty(std::string(name) + "_bytes", std::to_string(taken));
    EXPECT_GE(taken, 4 * kLarge) << name;
    EXPECT_LE(taken, 5 * kLarge + 2 * tensors + 2048 * kCandidates) << name << " " << tensors;
  }
  const std::size_t before = test::allocated_bytes();
  const Context context(kLarge, 65'536);
  EXPECT_EQ(test::allocated_bytes() - before, 8u * kLarge + 8u * 65'536);
}

/// A row whose mass ends its window at K is restored as by a bundle of window K.
TEST(Restorer, AdaptiveWindowsAreWindowsOfThatSize) {
  schemas::Bundle bundle = test::toy_context_bundle(kVocabulary, kWindow);
  Context context(kVocabulary, 301);
  context.begin(test::toy_text(kVocabulary, 300));
  base::Random random(12);
  std::vector<int> sizes;
  for (const char* name : {"always", "context"}) {
    schemas::PrecisionEntry& entry = bundle.precisions.at(name);
    entry.mode = "always";
    for (const double mass : {0.0, 0.4, 0.6}) {
      const std::vector<float> row = test::random_row(kVocabulary, 3, 0, random);
      const auto run = [&](int window, double window_mass, dgap_result& result) {
        entry.window = window, entry.window_mass = window_mass;
        Restorer restorer(bundle, name);
        std::vector<float> edited = row;
        restorer.run({edited.data(), DGAP_F32, 1, kVocabulary, 0, 4}, true, &result, &context);
        return edited;
      };
      dgap_result adaptive{}, fixed{};
      const std::vector<float> edited = run(kWindow, mass, adaptive);
      EXPECT_EQ(edited, run(adaptive.window, 1.0, fixed));
      EXPECT_EQ(adaptive.window, fixed.window);
      EXPECT_EQ(adaptive.risk, fixed.risk);
      EXPECT_EQ(adaptive.verdict, DGAP_RESTORE);
      sizes.push_back(adaptive.window);
    }
  }
  EXPECT_EQ(sizes[0], 1);
  EXPECT_GT(sizes[1], 1);
  EXPECT_LT(sizes[1], kWindow);
}

/// The order of verdicts: rejected, escalate, restore, keep.
TEST(Restorer, EscalatesBeforeItRestores) {
  schemas::Bundle bundle = test::toy_bundle(kVocabulary, kWindow);
  constexpr std::int64_t kRows = 200;
  base::Random random(6);
  const std::vector<float> rows = test::random_row(kVocabulary * kRows, 3, 0, random);
  std::vector<float> edited;
  const auto run = [&](const char* precision) {
    edited = rows;
    edited[0] = std::nanf("");  // the first row is rejected
    std::vector<dgap_result> results(kRows);
    Restorer restorer(bundle, precision);
    restorer.run({edited.data(), DGAP_F32, kRows, kVocabulary, kVocabulary * 4, 4}, true,
                 results.data());
    return results;
  };
  const std::vector<dgap_result> plain = run("mlp");
  schemas::PrecisionEntry& entry = bundle.precisions.at("mlp");
  entry.detector.escalate = true;
  test::add_network(bundle.tensors, "mlp.detector.escalate", kDetectorWidth, {8, 4}, 9);
  EXPECT_EQ(run("mlp")[7].verdict, plain[7].verdict);  // no threshold: as without

  entry.escalate_tau = 0.5;
  const Detector detector(entry.detector, bundle.tensors);
  std::vector<float> scratch(detector.scratch_floats()), phi(kDetectorWidth);
  RowScan scan(kVocabulary, kWindow);
  int escalated = 0;
  const std::vector<dgap_result> results = run("mlp");
  EXPECT_EQ(results[0].verdict, DGAP_REJECTED);
  for (std::int64_t r = 1; r < kRows; ++r) {
    const auto row = std::span(rows).subspan(r * kVocabulary, kVocabulary);
    const RowStatistics statistics = scan.assign(Row(row));
    std::vector<float> window(row.begin(), row.end());
    std::sort(window.begin(), window.end(), std::greater<>());
    window.resize(kWindow);
    detector_features(window, statistics.lse, statistics.entropy, phi.data());
    const bool expected = detector.escalation(phi.data(), scratch.data()) > 0.5f;
    EXPECT_EQ(results[r].verdict, expected ? DGAP_ESCALATE : plain[r].verdict);
    EXPECT_EQ(results[r].risk, plain[r].risk);
    if (!expected) continue;
    ++escalated;
    EXPECT_TRUE(std::equal(row.begin(), row.end(), edited.begin() + r * kVocabulary));
  }
  EXPECT_GT(escalated, 10);
  EXPECT_LT(escalated, kRows - 10);
  entry.mode = "off";  // nothing is corrected, but what cannot be is still named
  const std::vector<dgap_result> off = run("mlp");
  for (std::int64_t r = 1; r < kRows; ++r) {
    const bool same = results[r].verdict == DGAP_ESCALATE;
    EXPECT_EQ(off[r].verdict, same ? DGAP_ESCALATE : DGAP_KEEP);
  }
}

TEST(Restorer, ThreadsShareOneBundle) {
  const schemas::Bundle bundle = test::toy_bundle(kVocabulary, kWindow);
  constexpr std::size_t kRows = 20, kThreads = 16;
  base::Random random(2);
  const std::vector<float> rows = test::random_row(kVocabulary * kRows, 3, 0, random);
  const auto restored = [&] {
    std::vector<float> copy = rows;
    std::vector<dgap_result> results(kRows);
    Restorer restorer(bundle, "mlp");
    restorer.run({copy.data(), DGAP_F32, kRows, kVocabulary, kVocabulary * 4, 4}, true,
                 results.data());
    return copy;
  };
  const std::vector<float> expected = restored();
  std::vector<std::vector<float>> found(kThreads);
  std::vector<std::thread> threads;
  for (auto& result : found) threads.emplace_back([&result, &restored] { result = restored(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(expected, rows);
  for (const auto& result : found) EXPECT_EQ(result, expected);
}

TEST(Restorer, RefusesAWindowBeyondTheVocabulary) {
  schemas::Bundle bundle = test::toy_bundle(21, 21);
  bundle.precisions.find("mlp")->second.window = 64;
  try {
    Restorer(bundle, "mlp");
    FAIL();
  } catch (const base::IoError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("64"), ::testing::HasSubstr("21")));
  }
}

// The same sources, compiled without dispatch for the baseline without vectorisation, and for
// AVX2 and AVX-512: whichever level the dispatcher picks here, every bit must be the same.
class LevelTest : public ::testing::TestWithParam<test::Level> {};

TEST_P(LevelTest, GivesTheSameBits) {
  const test::Level level = GetParam();
  if (!level.supported()) GTEST_SKIP() << "this processor cannot run it";
  const schemas::Bundle bundle = test::toy_context_bundle(kVocabulary, kWindow);
  Context context(kVocabulary);
  context.begin(test::toy_text(kVocabulary, 300));
  std::vector<float> state = test::toy_hidden();
  const dgap_logits hidden{state.data(), DGAP_F32, 1, 64, 0, 4};
  for (const char* name :
       {"mlp", "linear", "always", "context", "transformer", "window", "hidden"}) {
    Restorer restorer(bundle, name);
    for (const test::Row& row : test::hard_rows(kVocabulary)) {
      for (const dgap_dtype dtype : {DGAP_F32, DGAP_F16, DGAP_BF16}) {
        const std::int64_t size = dtype == DGAP_F32 ? 4 : 2;
        std::vector<std::byte> a(static_cast<std::size_t>(kVocabulary * size));
        for (std::size_t i = 0; i < row.logits.size(); ++i) {
          const float x = row.logits[i];
          const std::uint32_t bits = dtype == DGAP_F32   ? std::bit_cast<std::uint32_t>(x)
                                     : dtype == DGAP_F16 ? base::to_half(x)
                                                         : base::to_bfloat16(x);
          std::memcpy(a.data() + i * static_cast<std::size_t>(size), &bits,
                      static_cast<std::size_t>(size));
        }
        std::vector<std::byte> b = a;
        dgap_result mine{}, theirs{};
        restorer.run({a.data(), dtype, 1, kVocabulary, 0, size}, true, &mine, &context, &hidden);
        level.restore(kVocabulary, kWindow, name, {b.data(), dtype, 1, kVocabulary, 0, size},
                      &theirs);
        EXPECT_EQ(mine.verdict, theirs.verdict) << row.name;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(mine.risk),
                  std::bit_cast<std::uint32_t>(theirs.risk))
            << row.name;
        EXPECT_TRUE(a == b) << name << " " << row.name << " " << dtype;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LevelTest, ::testing::ValuesIn(test::kLevels),
                         [](const auto& level) { return std::string(level.param.name); });

}  // namespace
}  // namespace dgap::runtime
