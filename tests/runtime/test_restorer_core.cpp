#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/half.hpp"
#include "base/random.hpp"
#include "runtime/restorer.hpp"
#include "tests/runtime/counting_new.hpp"
#include "tests/runtime/level.hpp"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap::runtime {
namespace {

constexpr std::int64_t kVocabulary = 3001;
constexpr int kWindow = 77;

TEST(Restorer, AllocatesNothingAfterCreation) {
  const long some = test::allocations();
  const schemas::Bundle bundle = test::toy_context_bundle(kVocabulary, kWindow);
  ASSERT_GT(test::allocations(), some);  // it counts
  Context context(kVocabulary, 301);
  context.begin(test::toy_text(kVocabulary, 300));
  std::vector<std::uint16_t> halves(kVocabulary);
  for (const char* name :
       {"mlp", "linear", "always", "off", "none", "context", "transformer", "window"}) {
    Restorer restorer(bundle, name);
    for (test::Row& row : test::hard_rows(kVocabulary)) {
      for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = base::to_half(row.logits[i]);
      dgap_result result{};
      const long before = test::allocations();
      restorer.run({row.logits.data(), DGAP_F32, 1, kVocabulary, 0, 4}, true, &result, &context);
      restorer.run({halves.data(), DGAP_F16, 1, kVocabulary, 0, 2}, true, &result, &context);
      const std::int32_t id = 7;
      context.accept({&id, 1});
      context.roll_back(1);
      EXPECT_EQ(test::allocations(), before) << name << " " << row.name;
    }
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
  for (const char* name : {"mlp", "linear", "always", "context", "transformer", "window"}) {
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
        restorer.run({a.data(), dtype, 1, kVocabulary, 0, size}, true, &mine, &context);
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
