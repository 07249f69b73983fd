#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "base/half.hpp"
#include "base/random.hpp"
#include "runtime/features.hpp"
#include "runtime/include/dgap/runtime.h"
#include "runtime/models.hpp"
#include "runtime/row_scan.hpp"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

/// Through the C ABI, as a serving stack calls it.
namespace dgap {
namespace {

using test::kInfinity;
using test::kNaN;
using ::testing::HasSubstr;

constexpr std::int64_t kVocabulary = 1500;
constexpr int kWindow = 48;

struct Handles {
  explicit Handles(const schemas::Bundle& bundle) {
    test::write_toy_bundle(folder.path() / "bundle", bundle);
    status = dgap_bundle_open((folder.path() / "bundle").c_str(), &handle);
  }
  ~Handles() { dgap_bundle_close(handle); }
  dgap_restorer* restorer(const char* precision) {
    dgap_restorer* made = nullptr;
    EXPECT_EQ(dgap_restorer_create(handle, precision, &made), DGAP_OK) << dgap_last_error();
    owned.emplace_back(made, &dgap_restorer_destroy);
    return made;
  }
  test::TemporaryFolder folder;
  dgap_bundle* handle = nullptr;
  dgap_status status;
  std::vector<std::unique_ptr<dgap_restorer, void (*)(dgap_restorer*)>> owned;
};

class RestorerTest : public ::testing::Test {
 protected:
  static dgap_logits view_of(std::vector<float>& rows, std::int64_t width) {
    return {rows.data(), DGAP_F32,  static_cast<std::int64_t>(rows.size()) / width,
            width,       width * 4, 4};
  }
  static dgap_result restore(dgap_restorer* restorer, std::vector<float>& row) {
    dgap_result result{};
    const dgap_logits view = view_of(row, static_cast<std::int64_t>(row.size()));
    EXPECT_EQ(dgap_restorer_restore(restorer, &view, &result), DGAP_OK) << dgap_last_error();
    return result;
  }

  schemas::Bundle bundle_ = test::toy_bundle(kVocabulary, kWindow);
  Handles handles_{bundle_};
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_F(RestorerTest, IsTheTrainersForwardPassBitForBit) {
  int restored = 0, kept = 0;
  for (const char* name : {"mlp", "linear", "always"}) {
    const schemas::PrecisionEntry& entry = bundle_.precisions.find(name)->second;
    const runtime::Detector detector(entry.detector, bundle_.tensors);
    const runtime::Corrector corrector(entry.corrector, bundle_.tensors);
    std::vector<float> detector_scratch(detector.scratch_floats());
    runtime::Corrector::Scratch corrector_scratch = corrector.scratch(kWindow);
    runtime::RowScan scan(kVocabulary, kWindow);
    base::Random random(11);
    for (int i = 0; i < 40; ++i) {
      std::vector<float> row = test::random_row(kVocabulary, 1.0 + i * 0.2, 0, random);
      std::vector<float> expected = row;
      const runtime::RowStatistics statistics = scan.assign(runtime::Row(row));
      std::vector<std::int32_t> ids(kWindow);
      std::vector<float> window(kWindow), delta(kWindow), phi(runtime::kDetectorWidth);
      scan.top(ids.data(), window.data());
      runtime::detector_features(window, statistics.lse, statistics.entropy, phi.data());
      const float risk = detector.risk(phi.data(), detector_scratch.data());
      const bool correct = entry.mode == "always" || risk > entry.tau;
      if (correct) {
        corrector.deltas({phi.data(), window, statistics.lse, ids, nullptr}, delta.data(),
                         corrector_scratch);
        for (std::size_t j = 0; j < ids.size(); ++j) expected[ids[j]] = window[j] + delta[j];
      }
      (correct ? restored : kept)++;
      const dgap_result result = restore(handles_.restorer(name), row);
      EXPECT_EQ(result.verdict, correct ? DGAP_RESTORE : DGAP_KEEP);
      EXPECT_EQ(result.risk, risk);
      EXPECT_EQ(result.window, kWindow);
      EXPECT_TRUE(same_bits(row, expected));
    }
  }
  EXPECT_GT(restored, 40);  // the fixture has both cases
  EXPECT_GT(kept, 5);
}

TEST_F(RestorerTest, TouchesTheWindowAlone) {
  base::Random random(5);
  for (test::Row& hard : test::hard_rows(kVocabulary)) {
    const std::vector<float> before = hard.logits;
    std::vector<std::int32_t> window = test::reference_order(before);
    window.resize(std::min<std::size_t>(window.size(), kWindow));
    const std::set<std::int32_t> inside(window.begin(), window.end());
    const dgap_result result = restore(handles_.restorer("always"), hard.logits);
    EXPECT_EQ(result.window, static_cast<std::int32_t>(window.size())) << hard.name;
    for (std::int32_t id = 0; id < kVocabulary; ++id) {
      const auto i = static_cast<std::size_t>(id);
      if (inside.contains(id) && result.verdict == DGAP_RESTORE) continue;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(before[i]),
                std::bit_cast<std::uint32_t>(hard.logits[i]))
          << hard.name << " " << id;
    }
  }
}

TEST_F(RestorerTest, ScoreSaysTheSameAndChangesNothing) {
  base::Random random(6);
  for (const char* name : {"mlp", "linear", "always", "off", "none"}) {
    for (int i = 0; i < 10; ++i) {
      std::vector<float> row = test::random_row(kVocabulary, 0.5 + i, 0, random);
      const std::vector<float> before = row;
      dgap_result scored{};
      const dgap_logits view = view_of(row, kVocabulary);
      ASSERT_EQ(dgap_restorer_score(handles_.restorer(name), &view, &scored), DGAP_OK);
      EXPECT_TRUE(same_bits(row, before));
      const dgap_result restored = restore(handles_.restorer(name), row);
      EXPECT_EQ(scored.verdict, restored.verdict);
      EXPECT_EQ(scored.risk, restored.risk);
      EXPECT_EQ(same_bits(row, before),
                restored.verdict == DGAP_KEEP || std::string_view(name) == "none");
    }
  }
}

TEST_F(RestorerTest, ModesDecideBeforeTheThreshold) {
  base::Random random(7);
  std::vector<float> row = test::random_row(kVocabulary, 3, 0, random);
  EXPECT_EQ(restore(handles_.restorer("off"), row).verdict, DGAP_KEEP);
  EXPECT_EQ(restore(handles_.restorer("always"), row).verdict, DGAP_RESTORE);
}

TEST(Restorer, ThresholdIsStrict) {
  for (const auto& [tau, verdict] : {std::pair(0.25, DGAP_KEEP), {0.2499, DGAP_RESTORE}}) {
    schemas::Bundle bundle = test::toy_bundle(100, 5);
    schemas::PrecisionEntry& entry = bundle.precisions.find("always")->second;  // risk 0.25
    entry.mode = "threshold";
    entry.tau = tau;
    Handles handles(bundle);
    std::vector<float> row(100, 1.0f);
    dgap_result result{};
    const dgap_logits view = {row.data(), DGAP_F32, 1, 100, 400, 4};
    ASSERT_EQ(dgap_restorer_restore(handles.restorer("always"), &view, &result), DGAP_OK);
    EXPECT_EQ(result.verdict, verdict);
  }
}

TEST_F(RestorerTest, RejectsRowsWithoutADistribution) {
  base::Random random(8);
  std::vector<float> rows = test::random_row(kVocabulary * 5, 3, 0, random);
  rows[3] = kNaN;
  rows[kVocabulary + 7] = kInfinity;
  std::fill_n(rows.begin() + 2 * kVocabulary, kVocabulary, -kInfinity);
  rows[3 * kVocabulary + 9] = -kInfinity;  // fine
  const std::vector<float> before = rows;
  std::vector<dgap_result> results(5);
  const dgap_logits view = view_of(rows, kVocabulary);
  ASSERT_EQ(dgap_restorer_restore(handles_.restorer("always"), &view, results.data()), DGAP_OK);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(results[r].verdict, DGAP_REJECTED);
    EXPECT_EQ(results[r].window, 0);
    EXPECT_TRUE(std::isnan(results[r].risk));
  }
  EXPECT_EQ(results[3].verdict, DGAP_RESTORE);
  EXPECT_EQ(results[4].verdict, DGAP_RESTORE);
  EXPECT_EQ(std::memcmp(rows.data(), before.data(), 3 * kVocabulary * sizeof(float)), 0);
}

TEST(Restorer, LeavesTheRowWhenTheCorrectionIsNotFinite) {
  schemas::Bundle bundle = test::toy_bundle(100, 5);
  bundle.precisions.find("linear")->second.mode = "always";
  for (float& w : bundle.tensors.at("linear.corrector.shape.0.weight").data) w = 3e38f;
  Handles handles(bundle);
  base::Random random(1);
  std::vector<float> row = test::random_row(100, 5, 0, random);
  const std::vector<float> before = row;
  dgap_result result{};
  const dgap_logits view = {row.data(), DGAP_F32, 1, 100, 400, 4};
  ASSERT_EQ(dgap_restorer_restore(handles.restorer("linear"), &view, &result), DGAP_OK);
  EXPECT_EQ(result.verdict, DGAP_REJECTED);
  EXPECT_EQ(result.window, 5);
  EXPECT_TRUE(same_bits(row, before));
}

// One layout of rows in memory; every one must give what contiguous f32 gives.
struct Layout {
  const char* name;
  dgap_dtype dtype;
  std::int64_t element_stride, row_stride, offset;
  std::int64_t width = kVocabulary + 13;
};

class LayoutTest : public RestorerTest, public ::testing::WithParamInterface<Layout> {};

float read(const std::byte* from, dgap_dtype dtype) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from, dtype == DGAP_F32 ? 4 : 2);
  return dtype == DGAP_F32   ? std::bit_cast<float>(bits)
         : dtype == DGAP_F16 ? base::from_half(static_cast<std::uint16_t>(bits))
                             : base::from_bfloat16(static_cast<std::uint16_t>(bits));
}

std::uint32_t bits_of(float value, dgap_dtype dtype) {
  return dtype == DGAP_F32   ? std::bit_cast<std::uint32_t>(value)
         : dtype == DGAP_F16 ? base::to_half(value)
                             : base::to_bfloat16(value);
}

TEST_P(LayoutTest, EqualsContiguousRowsAndLeavesEverythingElse) {
  const Layout& layout = GetParam();
  constexpr std::int64_t kRows = 16;
  const std::size_t size = layout.dtype == DGAP_F32 ? 4 : 2;
  base::Random random(9);
  const std::int64_t reach =
      std::max(layout.row_stride * kRows,
               layout.element_stride * layout.width + layout.row_stride * (kRows - 1));
  std::vector<std::byte> memory(static_cast<std::size_t>(reach + layout.offset + 8));
  for (std::byte& b : memory) b = static_cast<std::byte>(random.below(256));
  const auto place = [&](std::int64_t row, std::int64_t id) {
    return memory.data() + layout.offset + row * layout.row_stride + id * layout.element_stride;
  };
  std::vector<float> contiguous;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t id = 0; id < kVocabulary; ++id) {
      const std::uint32_t bits = bits_of(
          static_cast<float>(random.normal() * (0.5 + static_cast<double>(r))), layout.dtype);
      std::memcpy(place(r, id), &bits, size);
      contiguous.push_back(read(place(r, id), layout.dtype));
    }
  }
  const std::vector<std::byte> before = memory;

  std::vector<dgap_result> results(kRows), expected(kRows);
  const dgap_logits view = {
      memory.data() + layout.offset, layout.dtype, kRows, layout.width, layout.row_stride,
      layout.element_stride};
  ASSERT_EQ(dgap_restorer_restore(handles_.restorer("mlp"), &view, results.data()), DGAP_OK);
  const std::vector<float> original = contiguous;
  const dgap_logits plain = view_of(contiguous, kVocabulary);
  ASSERT_EQ(dgap_restorer_restore(handles_.restorer("mlp"), &plain, expected.data()), DGAP_OK);

  int changed = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(results[r].verdict, expected[r].verdict);
    EXPECT_EQ(results[r].risk, expected[r].risk);
    for (std::int64_t id = 0; id < kVocabulary; ++id) {
      const auto i = static_cast<std::size_t>(r * kVocabulary + id);
      std::uint32_t found = 0;
      std::memcpy(&found, place(r, id), size);
      EXPECT_EQ(found, bits_of(contiguous[i], layout.dtype)) << r << " " << id;
      changed += contiguous[i] != original[i] ? 1 : 0;
      std::memcpy(place(r, id), before.data() + (place(r, id) - memory.data()), size);
    }
  }
  EXPECT_GE(changed, kWindow / 2);
  EXPECT_TRUE(memory == before);  // apart from the logits nothing was written
}

INSTANTIATE_TEST_SUITE_P(
    All, LayoutTest,
    ::testing::Values(Layout{"f32", DGAP_F32, 4, (kVocabulary + 13) * 4, 0},
                      Layout{"f32 unaligned", DGAP_F32, 4, (kVocabulary + 13) * 4 + 1, 1},
                      Layout{"f32 in structs", DGAP_F32, 12, (kVocabulary + 13) * 12, 4},
                      Layout{"f32 column major", DGAP_F32, 16 * 4, 4, 0},
                      Layout{"f16", DGAP_F16, 2, (kVocabulary + 13) * 2, 0},
                      Layout{"f16 unaligned", DGAP_F16, 2, (kVocabulary + 13) * 2 + 1, 3},
                      Layout{"f16 strided", DGAP_F16, 6, (kVocabulary + 13) * 6, 2},
                      Layout{"bf16", DGAP_BF16, 2, (kVocabulary + 13) * 2, 0},
                      Layout{"bf16 strided", DGAP_BF16, 10, (kVocabulary + 13) * 10, 6}),
    [](const auto& layout) {
      std::string name(layout.param.name);
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(Restorer, ClampsWhatTheTypeCannotHold) {
  schemas::Bundle bundle = test::toy_bundle(100, 3);
  schemas::PrecisionEntry& entry = bundle.precisions.find("linear")->second;
  entry.mode = "always";
  entry.detector = bundle.precisions.find("always")->second.detector;  // constant
  for (float& w : bundle.tensors.at("linear.corrector.shape.0.weight").data) w = 0.0f;
  const auto edited = [&](dgap_dtype dtype, float logit, float bias) {
    bundle.tensors.at("linear.corrector.shape.0.bias").data[0] = bias;
    Handles own(bundle);
    std::vector<std::uint16_t> row(100, 0);
    row[50] = static_cast<std::uint16_t>(bits_of(logit, dtype));
    dgap_result result{};
    const dgap_logits view = {row.data(), dtype, 1, 100, 200, 2};
    EXPECT_EQ(dgap_restorer_restore(own.restorer("linear"), &view, &result), DGAP_OK);
    EXPECT_EQ(result.verdict, DGAP_RESTORE);
    return row[50];
  };
  EXPECT_EQ(edited(DGAP_F16, 65000.0f, 1e6f), 0x7bff);
  EXPECT_EQ(edited(DGAP_F16, 65000.0f, -1e6f), 0xfbff);
  EXPECT_EQ(edited(DGAP_F16, 65000.0f, 515.0f), 0x7bff);  // 65515: rounds to 65504
  EXPECT_EQ(edited(DGAP_BF16, 3e38f, 3.95e37f), 0x7f7f);  // 3.399e38 would round to infinity
  EXPECT_EQ(edited(DGAP_F16, 2048.0f, 1.0f), base::to_half(2048.0f));  // a tie: to even
  EXPECT_EQ(edited(DGAP_F16, 2050.0f, 1.0f), base::to_half(2052.0f));
}

TEST_F(RestorerTest, AcceptsNoRows) {
  const dgap_logits view = {nullptr, DGAP_F32, 0, kVocabulary, 0, 4};
  EXPECT_EQ(dgap_restorer_restore(handles_.restorer("mlp"), &view, nullptr), DGAP_OK);
}

TEST_F(RestorerTest, NamesWrongArguments) {
  dgap_restorer* const restorer = handles_.restorer("mlp");
  std::vector<float> row(kVocabulary + 9, 1.0f);
  dgap_result result{};
  const dgap_logits good = {row.data(), DGAP_F32, 1, kVocabulary, kVocabulary * 4, 4};
  const auto expect = [&](const dgap_logits& view, const char* message) {
    EXPECT_EQ(dgap_restorer_restore(restorer, &view, &result), DGAP_INVALID_ARGUMENT);
    EXPECT_THAT(dgap_last_error(), HasSubstr(message));
  };
  dgap_logits bad = good;
  bad.width = kVocabulary - 1;
  expect(bad, "width is 1499; the bundle's vocabulary needs 1500");
  bad = good, bad.data = nullptr;
  expect(bad, "NULL");
  bad = good, bad.dtype = 7;
  expect(bad, "dtype 7");
  bad = good, bad.element_stride = 3;
  expect(bad, "element_stride is 3");
  bad = good, bad.rows = 2, bad.row_stride = 0;
  expect(bad, "row_stride 0");
  bad = good, bad.rows = -1;
  expect(bad, "rows is -1");
  EXPECT_EQ(dgap_restorer_restore(nullptr, &good, &result), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_restorer_restore(restorer, nullptr, &result), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_restorer_restore(restorer, &good, nullptr), DGAP_INVALID_ARGUMENT);

  dgap_restorer* none = restorer;
  EXPECT_EQ(dgap_restorer_create(handles_.handle, "K2V2", &none), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_THAT(dgap_last_error(), HasSubstr("\"K2V2\"; it has always, linear, mlp, none and off"));
}

TEST_F(RestorerTest, ListsPrecisions) {
  EXPECT_EQ(dgap_bundle_vocab_size(handles_.handle), kVocabulary);
  ASSERT_EQ(dgap_bundle_precision_count(handles_.handle), 5);
  EXPECT_STREQ(dgap_bundle_precision_name(handles_.handle, 0), "always");
  EXPECT_STREQ(dgap_bundle_precision_name(handles_.handle, 4), "off");
  EXPECT_EQ(dgap_bundle_precision_name(handles_.handle, 5), nullptr);
  EXPECT_EQ(dgap_bundle_precision_name(handles_.handle, -1), nullptr);
  EXPECT_STREQ(dgap_runtime_version(), "0.1.0");
}

/// The bytes that were verified, whatever becomes of the file.
TEST_F(RestorerTest, GivesTheManifestThatItRead) {
  const std::filesystem::path file = handles_.folder.path() / "bundle/manifest.json";
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_THAT(text, HasSubstr("\"base_model\""));
  std::ofstream(file) << "{}";
  EXPECT_EQ(dgap_bundle_manifest(handles_.handle), text);
  EXPECT_EQ(dgap_bundle_manifest(nullptr), nullptr);
}

TEST_F(RestorerTest, OutlivesItsBundle) {
  dgap_restorer* const restorer = handles_.restorer("always");
  dgap_bundle_close(handles_.handle);
  handles_.handle = nullptr;
  std::vector<float> row(kVocabulary, 1.0f);
  EXPECT_EQ(restore(restorer, row).verdict, DGAP_RESTORE);
}

/// A bundle of which one precision takes the text.
class ContextTest : public RestorerTest {
 protected:
  struct Destroy {
    void operator()(dgap_context* context) const { dgap_context_destroy(context); }
  };
  std::unique_ptr<dgap_context, Destroy> context_of(const std::vector<std::int32_t>& ids) {
    dgap_context* context = nullptr;
    EXPECT_EQ(dgap_context_create(own_.handle, 4, &context), DGAP_OK) << dgap_last_error();
    EXPECT_EQ(dgap_context_begin(context, ids.data(), std::ssize(ids)), DGAP_OK);
    return std::unique_ptr<dgap_context, Destroy>(context);
  }
  dgap_status restore_in(const dgap_context* context, std::vector<float>& row) {
    const dgap_logits view = view_of(row, kVocabulary);
    dgap_result result{};
    return dgap_restorer_restore_in_context(restorer_, &context, &view, &result);
  }

  schemas::Bundle with_context_ = test::toy_context_bundle(kVocabulary, kWindow);
  Handles own_{with_context_};
  dgap_restorer* restorer_ = own_.restorer("context");
  std::vector<std::int32_t> text_ = test::toy_text(kVocabulary, 120);
  std::vector<float> row_ = [] {
    base::Random random(8);
    return test::random_row(kVocabulary, 3, 0, random);
  }();
};

TEST_F(ContextTest, RowsAreCorrectedAfterTheirOwnText) {
  EXPECT_EQ(dgap_restorer_takes_context(restorer_), 1);
  EXPECT_EQ(dgap_restorer_takes_context(own_.restorer("mlp")), 0);
  const auto one = context_of(text_), other = context_of({text_.begin(), text_.begin() + 60});
  std::vector<float> a = row_, b = row_, both = row_;
  both.insert(both.end(), row_.begin(), row_.end());
  ASSERT_EQ(restore_in(one.get(), a), DGAP_OK) << dgap_last_error();
  ASSERT_EQ(restore_in(other.get(), b), DGAP_OK);
  EXPECT_NE(a, b);
  EXPECT_NE(a, row_);
  const dgap_context* contexts[] = {one.get(), other.get()};
  const dgap_logits view = view_of(both, kVocabulary);
  dgap_result results[2];
  ASSERT_EQ(dgap_restorer_restore_in_context(restorer_, contexts, &view, results), DGAP_OK);
  const std::span rows(both);
  EXPECT_TRUE(same_bits(rows.first(kVocabulary), a));
  EXPECT_TRUE(same_bits(rows.last(kVocabulary), b));
}

TEST_F(ContextTest, RolledBackIsNeverAccepted) {
  const auto context = context_of(text_);
  std::vector<float> before = row_, after = row_;
  restore_in(context.get(), before);
  const std::int32_t draft[] = {3, 500, 3};
  ASSERT_EQ(dgap_context_accept(context.get(), draft, 3), DGAP_OK);
  EXPECT_EQ(dgap_context_length(context.get()), 123);
  ASSERT_EQ(dgap_context_roll_back(context.get(), 3), DGAP_OK);
  restore_in(context.get(), after);
  EXPECT_TRUE(same_bits(before, after));
}

TEST_F(ContextTest, NamesWrongArguments) {
  const dgap_logits view = view_of(row_, kVocabulary);
  dgap_result result{};
  EXPECT_EQ(dgap_restorer_restore(restorer_, &view, &result), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("dgap_restorer_restore_in_context"));
  EXPECT_EQ(dgap_restorer_score(restorer_, &view, &result), DGAP_OK);  // the detector needs no text
  EXPECT_EQ(dgap_restorer_restore_in_context(restorer_, nullptr, &view, &result),
            DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(restore_in(nullptr, row_), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("contexts[0] is NULL"));
  EXPECT_EQ(dgap_restorer_restore_in_context(own_.restorer("mlp"), nullptr, &view, &result),
            DGAP_OK);

  const Handles small(test::toy_context_bundle(900, 20));
  dgap_context* foreign = nullptr;
  ASSERT_EQ(dgap_context_create(small.handle, 0, &foreign), DGAP_OK);
  EXPECT_EQ(restore_in(foreign, row_), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("vocabulary of 900"));
  dgap_context_destroy(foreign);

  const auto context = context_of(text_);
  const std::int32_t outside = kVocabulary;
  EXPECT_EQ(dgap_context_accept(context.get(), &outside, 1), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("1500"));
  EXPECT_EQ(dgap_context_accept(context.get(), nullptr, 1), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_context_accept(context.get(), &outside, -1), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_context_roll_back(context.get(), 121), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_context_begin(nullptr, &outside, 1), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_context_create(nullptr, 0, &foreign), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_context_length(context.get()), 120);
  EXPECT_EQ(dgap_context_length(nullptr), 0);
  dgap_context_destroy(nullptr);
}

/// The precision that takes text and hidden states.
class HiddenTest : public ContextTest {
 protected:
  dgap_status restore_with(const dgap_logits* hidden, std::vector<float>& rows) {
    const dgap_logits view = view_of(rows, kVocabulary);
    const std::vector<const dgap_context*> contexts(static_cast<std::size_t>(view.rows),
                                                    context_.get());
    std::vector<dgap_result> results(contexts.size());
    return dgap_restorer_restore_with(taker_, contexts.data(), hidden, &view, results.data());
  }
  static dgap_logits states_of(std::vector<float>& states) {
    return {states.data(), DGAP_F32, std::ssize(states) / 64, 64, 256, 4};
  }

  dgap_restorer* taker_ = own_.restorer("hidden");
  std::unique_ptr<dgap_context, Destroy> context_ = context_of(text_);
};

TEST_F(HiddenTest, RowsAreCorrectedWithTheirOwnStates) {
  EXPECT_EQ(dgap_restorer_takes_hidden(taker_), 1);
  EXPECT_EQ(dgap_restorer_takes_hidden(restorer_), 0);
  EXPECT_EQ(dgap_bundle_hidden_size(own_.handle), 64);
  std::vector<float> one = test::toy_hidden(1), other = test::toy_hidden(2), both = one;
  both.insert(both.end(), other.begin(), other.end());
  std::vector<float> a = row_, b = row_, rows = row_;
  rows.insert(rows.end(), row_.begin(), row_.end());
  dgap_logits states = states_of(one);
  ASSERT_EQ(restore_with(&states, a), DGAP_OK) << dgap_last_error();
  states = states_of(other);
  ASSERT_EQ(restore_with(&states, b), DGAP_OK);
  EXPECT_NE(a, b);
  states = states_of(both);
  ASSERT_EQ(restore_with(&states, rows), DGAP_OK);
  const std::span all(rows);
  EXPECT_TRUE(same_bits(all.first(kVocabulary), a));
  EXPECT_TRUE(same_bits(all.last(kVocabulary), b));

  std::vector<std::uint16_t> halves(2 * 64, 0x7e00);  // every other one
  for (std::size_t i = 0; i < 64; ++i) halves[2 * i] = base::to_half(one[i]);
  std::vector<float> rounded(64), c = row_, d = row_;
  for (std::size_t i = 0; i < 64; ++i) rounded[i] = base::round_to_half(one[i]);
  states = states_of(rounded);
  ASSERT_EQ(restore_with(&states, c), DGAP_OK);
  states = {halves.data(), DGAP_F16, 1, 64, 256, 4};
  ASSERT_EQ(restore_with(&states, d), DGAP_OK) << dgap_last_error();
  EXPECT_TRUE(same_bits(c, d));
}

TEST_F(HiddenTest, NamesWrongArguments) {
  std::vector<float> state = test::toy_hidden();
  const dgap_logits good = states_of(state), view = view_of(row_, kVocabulary);
  dgap_result result{};
  EXPECT_EQ(restore_with(nullptr, row_), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("dgap_restorer_restore_with"));
  const dgap_context* const text = context_.get();
  EXPECT_EQ(dgap_restorer_restore_in_context(taker_, &text, &view, &result), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(dgap_restorer_score(taker_, &view, &result), DGAP_OK);
  dgap_logits bad = good;
  bad.width = 63;
  EXPECT_EQ(restore_with(&bad, row_), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("hidden size needs 64"));
  bad = good, bad.rows = 2;
  EXPECT_EQ(restore_with(&bad, row_), DGAP_INVALID_ARGUMENT);
  EXPECT_THAT(dgap_last_error(), HasSubstr("hidden has 2 rows"));
  bad = good, bad.data = nullptr;
  EXPECT_EQ(restore_with(&bad, row_), DGAP_INVALID_ARGUMENT);
  bad = good, bad.dtype = 9;
  EXPECT_EQ(restore_with(&bad, row_), DGAP_INVALID_ARGUMENT);
  state[3] = std::nanf("");
  std::vector<float> row = row_;
  ASSERT_EQ(dgap_restorer_restore_with(taker_, &text, &good, &view, &result), DGAP_OK);
  EXPECT_EQ(result.verdict, DGAP_REJECTED);
  EXPECT_TRUE(same_bits(row, row_));
}

TEST(Bundle, OpenTellsWhatIsWrong) {
  dgap_bundle* bundle = nullptr;
  EXPECT_EQ(dgap_bundle_open("/nonexistent/bundle", &bundle), DGAP_IO);
  EXPECT_THAT(dgap_last_error(), HasSubstr("/nonexistent/bundle"));
  EXPECT_EQ(dgap_bundle_open(nullptr, &bundle), DGAP_INVALID_ARGUMENT);
  dgap_bundle_close(nullptr);
  dgap_restorer_destroy(nullptr);

  schemas::Bundle other = test::toy_bundle(100, 5);
  std::swap(other.feature_names[0], other.feature_names[1]);
  Handles handles(other);
  ASSERT_EQ(handles.status, DGAP_OK);
  dgap_restorer* restorer = nullptr;
  EXPECT_EQ(dgap_restorer_create(handles.handle, "mlp", &restorer), DGAP_UNSUPPORTED);
}

TEST(Bundle, WindowMayBeTheVocabularyAndNoMore) {
  Handles all(test::toy_bundle(21, 21));
  std::vector<float> row(21, 0.5f);
  dgap_result result{};
  const dgap_logits view = {row.data(), DGAP_F32, 1, 21, 84, 4};
  ASSERT_EQ(dgap_restorer_restore(all.restorer("always"), &view, &result), DGAP_OK);
  EXPECT_EQ(result.window, 21);
  EXPECT_THROW(Handles(test::toy_bundle(21, 64)), base::FailedError);
}

/// A controller per sequence: tau follows the rate, and each has a state of its own.
TEST_F(RestorerTest, ControllersMoveTauPerSequence) {
  bundle_.precisions.at("mlp").online = schemas::OnlineRate{0.25, 0.05, 0.1, 0.9};
  Handles handles(bundle_);
  dgap_restorer* const restorer = handles.restorer("mlp");
  dgap_controller *one = nullptr, *other = nullptr, *none = nullptr;
  ASSERT_EQ(dgap_controller_create(handles.handle, "mlp", &one), DGAP_OK) << dgap_last_error();
  ASSERT_EQ(dgap_controller_create(handles.handle, "mlp", &other), DGAP_OK);
  EXPECT_EQ(dgap_controller_create(handles.handle, "linear", &none), DGAP_UNSUPPORTED);
  EXPECT_THAT(dgap_last_error(), HasSubstr("threshold.online.rate"));
  EXPECT_EQ(dgap_controller_create(handles.handle, "x", &none), DGAP_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);

  ASSERT_EQ(dgap_restorer_set_controller(restorer, one), DGAP_OK);
  base::Random random(8);
  double tau = 0.5;
  int corrected = 0;
  for (int r = 0; r < 300; ++r) {
    std::vector<float> row = test::random_row(kVocabulary, 3, 0, random), copy = row;
    dgap_result scored{};
    const dgap_logits view = view_of(copy, kVocabulary);
    ASSERT_EQ(dgap_controller_tau(one), tau);
    ASSERT_EQ(dgap_restorer_score(restorer, &view, &scored), DGAP_OK);  // observes nothing
    ASSERT_EQ(dgap_controller_tau(one), tau);
    const dgap_result result = restore(restorer, row);
    ASSERT_EQ(result.verdict, result.risk > tau ? DGAP_RESTORE : DGAP_KEEP);
    ASSERT_EQ(scored.verdict, result.verdict);
    corrected += result.verdict == DGAP_RESTORE;
    tau = std::clamp(tau + 0.05 * ((result.verdict == DGAP_RESTORE ? 1.0 : 0.0) - 0.25), 0.1, 0.9);
  }
  EXPECT_GT(corrected, 30);
  EXPECT_LT(corrected, 150);
  EXPECT_EQ(dgap_controller_tau(other), 0.5);
  dgap_controller_reset(one);
  EXPECT_EQ(dgap_controller_tau(one), 0.5);
  EXPECT_EQ(dgap_restorer_set_controller(restorer, nullptr), DGAP_OK);
  std::vector<float> row = test::random_row(kVocabulary, 3, 0, random);
  restore(restorer, row);
  EXPECT_EQ(dgap_controller_tau(one), 0.5);
  EXPECT_EQ(dgap_restorer_set_controller(nullptr, one), DGAP_INVALID_ARGUMENT);
  dgap_controller_destroy(one);
  dgap_controller_destroy(other);
  dgap_controller_destroy(nullptr);
}

}  // namespace
}  // namespace dgap
