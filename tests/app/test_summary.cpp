#include "app/summary.hpp"
#include "helpers.hpp"
#include "schemas/results/results.hpp"

namespace dgap::app {
namespace {

using ::testing::HasSubstr;

TEST(Summary, HeadlineFiguresPerPrecision) {
  const TemporaryFolder folder;
  schemas::Config config;
  config.run.dir = folder.path().string();
  config.precisions = {schemas::preset("K1V1"), schemas::preset("K4V4")};
  std::filesystem::create_directories(config.run_directory());
  schemas::WindowResult window;
  window.window = 64;
  schemas::write_windows(config.run_directory() / "windows.json", {{"K1V1", window}});
  base::write_file_atomically(config.run_directory() / "evaluation.json",
                              R"({"version": 1,
      "precisions": {"K1V1": {
      "bits_per_element": {"key": 1.25, "value": 1.25}, "reference": {"perplexity": 34.5},
      "quantized": {"perplexity": 100.25, "kl": 1.1, "top1_agreement": 0.427},
      "restored": {"perplexity": 90.5, "kl": 0.95, "top1_agreement": null,
                   "correction_rate": 0.5}}}})");

  const auto answer = summary(config);
  EXPECT_EQ(answer["precisions"]["K1V1"]["window"], 64);
  EXPECT_EQ(answer["precisions"]["K1V1"]["kl"], nlohmann::json::array({1.1, 0.95}));
  EXPECT_TRUE(answer["precisions"]["K1V1"]["top1_agreement"][1].is_null());
  EXPECT_TRUE(answer["precisions"]["K4V4"]["kl"][0].is_null());
  EXPECT_FALSE(answer.contains("report"));

  const std::string table = summary_table(answer);
  EXPECT_THAT(table, HasSubstr("1.25 / 1.25"));
  EXPECT_THAT(table, HasSubstr("100.25 > 90.50"));
  EXPECT_THAT(table, HasSubstr("1.1 > 0.95"));
  EXPECT_THAT(table, HasSubstr("42.7 > -"));
  EXPECT_THAT(table, HasSubstr("50.0 %"));
}

}  // namespace
}  // namespace dgap::app
