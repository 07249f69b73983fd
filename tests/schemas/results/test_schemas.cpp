#include "helpers.hpp"
#include "json_schema.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

JsonSchema schema(const std::string& name) {
  return JsonSchema(json::parse(
      base::read_file(std::filesystem::path(DGAP_SOURCE_DIR) / "schemas/results" / name)));
}

TEST(ResultSchemas, AcceptWhatIsWritten) {
  const TemporaryFolder folder;
  write_windows(folder / "w.json", some_windows());
  EXPECT_EQ(schema("windows.schema.json").check(json::parse(base::read_file(folder / "w.json"))),
            "");
  write_thresholds(folder / "t.json", some_thresholds());
  EXPECT_EQ(schema("threshold.schema.json").check(json::parse(base::read_file(folder / "t.json"))),
            "");

  write_trained(folder.path(), "K1V1", some_detector());
  EXPECT_EQ(schema("trained.schema.json").check(json::parse(base::read_file(folder / "K1V1.json"))),
            "");

  Config config;
  config.run.dir = folder.path().string();
  std::filesystem::create_directories(config.run_directory());
  base::write_file_atomically(config.run_directory() / "report.html", "x");
  Stage(config, "report", {}).finish({config.run_directory() / "report.html"});
  EXPECT_EQ(schema("stage.schema.json")
                .check(json::parse(base::read_file(config.run_directory() / "stages/report.json"))),
            "");
}

TEST(ResultSchemas, RefuseWhatTheReadersRefuse) {
  const TemporaryFolder folder;
  write_windows(folder / "w.json", some_windows());
  const json good = json::parse(base::read_file(folder / "w.json"));
  json bad = good;
  bad["version"] = 2;
  EXPECT_THAT(schema("windows.schema.json").check(bad), HasSubstr("$.version"));
  bad = good;
  bad["precisions"]["K4V4"]["window"] = 0;
  EXPECT_THAT(schema("windows.schema.json").check(bad), HasSubstr("$.precisions.K4V4.window"));
  bad = good;
  bad["precisions"]["K4V4"]["extra"] = 0;
  EXPECT_THAT(schema("windows.schema.json").check(bad), HasSubstr("extra"));
  bad = good;
  bad["precisions"]["K4V4"].erase("reachable");
  EXPECT_THAT(schema("windows.schema.json").check(bad), HasSubstr("lacks \"reachable\""));
}

json decode_figures() {
  return {{"perplexity", 40.5},
          {"kl", 0.5},
          {"drift", 0.1},
          {"drift_risky", nullptr},
          {"top1_agreement", 0.75}};
}

json some_evaluation() {
  json restored = decode_figures();
  restored["correction_rate"] = 0.5;
  restored["kl_worse_share"] = 0.1;
  const json figures = {{"steps", 100},
                        {"reference", {{"perplexity", 34.5}}},
                        {"quantized", decode_figures()},
                        {"restored", restored},
                        {"oracle_risky", decode_figures()},
                        {"oracle_all", decode_figures()},
                        {"detector", {{"auc", 0.8}, {"precision", 0.7}, {"recall", nullptr}}},
                        {"coverage", {{"mean", 0.8}, {"quantiles", {{"5", 0.1}, {"50", 0.8}}}}},
                        {"positive_rate", 0.5},
                        {"uncovered_rate", 0.25}};
  json precision = figures;
  precision["bits_per_element"] = {{"key", 1.25}, {"value", 1.25}};
  const json interval = json::array({0.4, 0.6});
  return {{"version", 1},
          {"seeds", {1}},
          {"precisions", {{"K1V1", precision}}},
          {"intervals",
           {{"clusters", "books"},
            {"precisions",
             {{"K1V1", {{"quantized", {{"kl", interval}}}, {"positive_rate", interval}}}}}}},
          {"by_length", {{"1024", {{"K1V1", figures}}}}},
          {"tasks",
           {{"passkey",
             {{"cases", 20},
              {"context", 900},
              {"reference", {{"exact", 0.5}, {"token", 0.9}}},
              {"precisions",
               {{"K1V1",
                 {{"quantized", {{"exact", 0}, {"token", 0.1}}},
                  {"restored", {{"exact", 0}, {"token", 0.1}}}}}}}}}}}};
}

TEST(ResultSchemas, EvaluationFollowsTheContract) {
  const JsonSchema evaluation = schema("evaluation.schema.json");
  EXPECT_EQ(evaluation.check(some_evaluation()), "");
  const auto without = [&](const std::string& pointer) {
    json value = some_evaluation();
    const json::json_pointer at(pointer);
    value.at(at.parent_pointer()).erase(at.back());
    return evaluation.check(value);
  };
  for (const char* key :
       {"/version", "/seeds", "/intervals", "/by_length", "/tasks", "/precisions/K1V1/steps",
        "/precisions/K1V1/bits_per_element/key", "/precisions/K1V1/quantized/kl",
        "/precisions/K1V1/restored/correction_rate", "/precisions/K1V1/oracle_all",
        "/precisions/K1V1/detector/auc", "/precisions/K1V1/coverage/quantiles",
        "/precisions/K1V1/uncovered_rate", "/tasks/passkey/reference/token"}) {
    EXPECT_THAT(without(key), HasSubstr("lacks")) << key;
  }
  json value = some_evaluation();
  value["intervals"]["precisions"]["K1V1"]["quantized"]["kl"] = {0.1};
  EXPECT_NE(evaluation.check(value), "");
  value = some_evaluation();
  value["precisions"]["K1V1"]["restored"]["correction_rate"] = 1.5;
  EXPECT_NE(evaluation.check(value), "");
}

}  // namespace
}  // namespace dgap::schemas
