#include <fstream>

#include "helpers.hpp"
#include "schemas/scheme/allocation.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;

void expect_equal(const AllocationPoint& a, const AllocationPoint& b) {
  EXPECT_EQ(a.bits, b.bits);
  EXPECT_EQ(a.parts, b.parts);
  EXPECT_EQ(a.loss.nll, b.loss.nll);
  EXPECT_EQ(a.loss.kl, b.loss.kl);
  EXPECT_EQ(a.loss.token, b.loss.token);
  EXPECT_EQ(a.loss.exact, b.loss.exact);
}

TEST(SensitivityFile, RoundTrip) {
  const TemporaryFolder folder;
  const Sensitivity a = some_sensitivity();
  write_sensitivity(folder / "s.json", a);
  const Sensitivity b = read_sensitivity(folder / "s.json");
  EXPECT_EQ(b.key, a.key);
  EXPECT_EQ(b.base, a.base);
  EXPECT_EQ(b.spared_bits, 4);
  EXPECT_EQ(b.prompts, 12);
  EXPECT_EQ(b.quantized.nll, a.quantized.nll);
  ASSERT_EQ(b.tensors.size(), 1u);
  EXPECT_EQ(b.tensors.at("key").gain_kl, a.tensors.at("key").gain_kl);
}

TEST(SensitivityFile, TablesHaveTheModelsShape) {
  const TemporaryFolder folder;
  Sensitivity s = some_sensitivity();
  s.tensors["key"].cost_kl.pop_back();
  write_sensitivity(folder / "s.json", s);
  EXPECT_THAT(refusal([&] { read_sensitivity(folder / "s.json"); }),
              HasSubstr("cost_kl: is not a table of layers and kv_heads"));
  s = some_sensitivity();
  s.tensors["query"] = s.tensors["key"];
  write_sensitivity(folder / "s.json", s);
  EXPECT_THAT(refusal([&] { read_sensitivity(folder / "s.json"); }),
              HasSubstr("query: is neither key nor value"));
}

TEST(AllocationResultsFile, RoundTrip) {
  const TemporaryFolder folder;
  const AllocationResults a = some_allocation_results();
  write_allocation_results(folder / "a.json", a);
  const AllocationResults b = read_allocation_results(folder / "a.json");
  EXPECT_EQ(b.estimator, "greedy");
  EXPECT_EQ(b.budget, 1.517);
  expect_equal(b.allocated, a.allocated);
  expect_equal(b.estimators.at("spared"), a.quantized);
  ASSERT_EQ(b.curve.size(), 2u);
  EXPECT_EQ(b.random.size(), 2u);
  expect_equal(b.curve[1], a.allocated);
}

TEST(WithAllocation, AddsThePrecisionOfTheFile) {
  const TemporaryFolder folder;
  Config config;
  config.run.dir = folder.path().string();
  config.precisions = {preset("K4V4"), preset("K1V1-R32")};
  EXPECT_EQ(with_allocation(config), config);
  config.allocation.base = "K1V1-R32", config.allocation.name = "mixed";
  EXPECT_THAT(refusal<base::FailedError>([&] { with_allocation(config); }),
              HasSubstr("precision mixed needs it; run `dgap allocate` first"));
  std::filesystem::create_directories(config.run_directory());
  write_allocation(config.run_directory() / "allocation.json",
                   {30, 3, {{.layers = {2}, .heads = {1}, .key = preset("K4V4").key}}});
  const Config with = with_allocation(config);
  ASSERT_EQ(with.precisions.size(), 3u);
  EXPECT_EQ(with.precisions[2].name, "mixed");
  EXPECT_EQ(head_scheme(with.precisions[2], 30, 2, 1).key.bits, 4);
  EXPECT_EQ(head_scheme(with.precisions[2], 30, 2, 0).key.bits, 1);
  EXPECT_FALSE(with.allocation.wanted());
}

}  // namespace
}  // namespace dgap::schemas
