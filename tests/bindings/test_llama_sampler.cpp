#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "bindings/llama_cpp/dgap_sampler.h"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

/// The sampler over candidates in every order that chains have them in.
namespace dgap {
namespace {

using ::testing::HasSubstr;

constexpr int kVocabulary = 700, kPadding = 5;
using Candidates = std::vector<llama_token_data>;

struct FreeSampler {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};
using SamplerPointer = std::unique_ptr<llama_sampler, FreeSampler>;

class LlamaSamplerTest : public ::testing::Test {
 protected:
  LlamaSamplerTest() {
    test::write_toy_bundle(folder_.path() / "bundle", test::toy_context_bundle(kVocabulary, 24));
    EXPECT_EQ(dgap_bundle_open((folder_.path() / "bundle").c_str(), &bundle_), DGAP_OK);
    llama_stand_in_log.clear();
  }
  ~LlamaSamplerTest() override { dgap_bundle_close(bundle_); }

  SamplerPointer sampler(const char* precision, const llama_model* model = nullptr) {
    return SamplerPointer(dgap_llama_sampler_create(bundle_, precision, model));
  }
  static Candidates candidates(std::uint64_t seed) {
    base::Random random(seed);
    const std::vector<float> row = test::random_row(kVocabulary + kPadding, 3.0, 0, random);
    Candidates made;
    for (int i = 0; i < kVocabulary + kPadding; ++i) made.push_back({i, row[i], 0.0f});
    return made;
  }
  static bool apply(llama_sampler* sampler, Candidates& candidates, bool sorted = false) {
    llama_token_data_array array{candidates.data(), candidates.size(), -1, sorted};
    sampler->iface->apply(sampler, &array);
    return array.sorted;
  }
  /// What the runtime makes of the candidates after `ids`, in order of ids.
  std::vector<float> expected(const char* precision, const Candidates& given,
                              const std::vector<llama_token>& ids) {
    std::vector<float> row(given.size());
    for (const llama_token_data& candidate : given) row[candidate.id] = candidate.logit;
    dgap_restorer* restorer = nullptr;
    dgap_context* context = nullptr;
    dgap_result result{};
    EXPECT_EQ(dgap_restorer_create(bundle_, precision, &restorer), DGAP_OK);
    EXPECT_EQ(dgap_context_create(bundle_, 0, &context), DGAP_OK);
    EXPECT_EQ(dgap_context_begin(context, ids.data(), static_cast<int>(ids.size())), DGAP_OK);
    const dgap_context* const text = context;
    const dgap_logits view{row.data(), DGAP_F32, 1, static_cast<int>(row.size()), 0, 4};
    EXPECT_EQ(dgap_restorer_restore_in_context(restorer, &text, &view, &result), DGAP_OK);
    dgap_context_destroy(context);
    dgap_restorer_destroy(restorer);
    return row;
  }
  static void expect_by_id(const Candidates& found, const std::vector<float>& row) {
    for (const llama_token_data& candidate : found) {
      ASSERT_EQ(candidate.logit, row[candidate.id]) << candidate.id;
    }
  }

  test::TemporaryFolder folder_;
  dgap_bundle* bundle_ = nullptr;
};

TEST_F(LlamaSamplerTest, FindsLogitsById) {
  const auto by_logit = [](const auto& a, const auto& b) { return a.logit > b.logit; };
  const SamplerPointer repair = sampler("always");
  for (int order = 0; order < 3; ++order) {
    Candidates given = candidates(7);
    if (order == 1) std::sort(given.begin(), given.end(), by_logit);
    if (order == 2) std::rotate(given.begin(), given.begin() + 13, given.end());
    const Candidates before = given;
    const std::vector<float> row = expected("always", given, {});
    EXPECT_FALSE(apply(repair.get(), given, order == 1)) << "corrected candidates are not sorted";
    expect_by_id(given, row);
    EXPECT_EQ(dgap_llama_sampler_last(repair.get()).verdict, DGAP_RESTORE);
    int changed = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_EQ(given[i].id, before[i].id);
      changed += given[i].logit != before[i].logit;
    }
    EXPECT_GT(changed, 10);
  }
}

TEST_F(LlamaSamplerTest, LeavesCutCandidatesAndSaysSoOnce) {
  const SamplerPointer repair = sampler("always");
  Candidates cut = candidates(7), twice = cut, given = cut;
  cut.resize(40);
  twice[5].id = 6;
  for (Candidates* wrong : {&cut, &twice}) {
    const Candidates before = *wrong;
    EXPECT_TRUE(apply(repair.get(), *wrong, true));
    for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ((*wrong)[i].logit, before[i].logit);
    EXPECT_EQ(dgap_llama_sampler_last(repair.get()).verdict, DGAP_REJECTED);
  }
  EXPECT_THAT(llama_stand_in_log, HasSubstr("not the whole vocabulary"));
  EXPECT_EQ(std::count(llama_stand_in_log.begin(), llama_stand_in_log.end(), '\n'), 1);
  apply(repair.get(), given);
  EXPECT_EQ(dgap_llama_sampler_last(repair.get()).verdict, DGAP_RESTORE);
}

TEST_F(LlamaSamplerTest, KeptRowsStaySorted) {
  const SamplerPointer repair = sampler("off");
  Candidates given = candidates(7);
  EXPECT_TRUE(apply(repair.get(), given, true));
  EXPECT_EQ(dgap_llama_sampler_last(repair.get()).verdict, DGAP_KEEP);
}

TEST_F(LlamaSamplerTest, ContextFollowsTheChain) {
  std::vector<llama_token> text = test::toy_text(kVocabulary, 60);
  const SamplerPointer repair = sampler("context");
  ASSERT_EQ(dgap_llama_sampler_begin(repair.get(), text.data(), 60), DGAP_OK);
  for (int step = 0; step < 4; ++step) {
    Candidates given = candidates(step);
    const std::vector<float> row = expected("context", given, text);
    apply(repair.get(), given);
    expect_by_id(given, row);
    text.push_back(text[step]);
    repair->iface->accept(repair.get(), text.back());
  }
  const SamplerPointer copy(repair->iface->clone(repair.get()));
  repair->iface->reset(repair.get());
  Candidates given = candidates(9), again = given;
  const std::vector<float> row = expected("context", given, text);
  const std::vector<float> anew = expected("context", given, {});
  apply(copy.get(), given);
  expect_by_id(given, row);
  apply(repair.get(), again);
  expect_by_id(again, anew);
  EXPECT_NE(row, anew);
  EXPECT_EQ(dgap_llama_sampler_begin(repair.get(), text.data(), -1), DGAP_INVALID_ARGUMENT);
}

TEST_F(LlamaSamplerTest, SaysWhatDoesNotFit) {
  EXPECT_EQ(sampler("K9"), nullptr);
  EXPECT_THAT(llama_stand_in_log, HasSubstr("K9"));
  EXPECT_EQ(sampler("hidden"), nullptr);
  EXPECT_THAT(llama_stand_in_log, HasSubstr("takes hidden states"));
  const llama_model smaller{kVocabulary - 1, 64}, wider{kVocabulary, 65}, same{kVocabulary + 8, 64};
  EXPECT_EQ(sampler("always", &smaller), nullptr);
  EXPECT_THAT(llama_stand_in_log, HasSubstr("vocabulary of 700, the model of 699"));
  EXPECT_EQ(sampler("always", &wider), nullptr);
  EXPECT_THAT(llama_stand_in_log, HasSubstr("hidden size of 64, the model of 65"));
  const SamplerPointer fits = sampler("always", &same);
  ASSERT_NE(fits, nullptr);
  EXPECT_STREQ(fits->iface->name(fits.get()), "dgap");
}

}  // namespace
}  // namespace dgap
