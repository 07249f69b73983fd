#include <set>

#include "helpers.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Every value differs from its default.
Config unusual() {
  Config c;
  c.run = {"no", "/tmp/a b: #c", 18446744073709551615u, 3};
  c.model = {"5", "gguf", "f32", "cuda", 1};
  c.corpus.path = "\"quoted\" 'text' \\ %é🙂";
  c.corpus.splits = {"null", "1e3", "true"};
  c.corpus.context_lengths = {7, 64, 4096};
  c.corpus.decode_steps = 3;
  c.corpus.sites_per_book = {1, 2, 3};
  c.corpus.front_matter = 0;
  c.precisions = {preset("uniform-K8V8"), preset("K1V1-R32"), preset("rotated-K1V1"),
                  preset("exact")};
  Scheme own = preset("K2V1");
  own.name = "own";
  own.family = "custom";
  own.value.rotate = false;
  own.rotation_seed = 9007199254740991u;
  own.overrides = {{.layers = {0, 1, 2, 9}, .key = preset("K4V4").key},
                   {.layers = {3}, .heads = {0}, .key = TensorScheme{}, .value = TensorScheme{}}};
  own.model_layers = 30, own.model_kv_heads = 3;
  c.precisions.push_back(own);
  for (const char* name :
       {"asymkv-16-2", "kivi-2", "llamacpp-q8_0-q4_0", "vllm-fp8-unscaled", "vllm-k3v4_nc",
        "turboquant-2.5", "turboquant-prod-3", "kvarn-k4v2-g64-S3"})
    c.precisions.push_back(preset(name));
  Scheme levels = preset("uniform-K1V1");
  levels.name = "levels", levels.family = "custom";
  levels.value.quantizer = Quantizer::codebook, levels.value.levels = {-0.7f, 0.1f};
  levels.overrides = {{.layers = {2}, .value = levels.value}};
  c.precisions.push_back(levels);
  c.decode = {"stepwise", 7};
  c.trace = {"full", 1000, 0.1 + 0.2, true, 3};
  c.window = {1e-300, 1.0 / 3.0, 5, 0.95};
  c.labels = {1e-5, 1.0};
  c.detector = {"linear", {1, 2, 3}};
  c.corrector = {"linear", "window", {4}, {24, 3, 2, 8}, {"logits"}, 5, "paper", 2.5, 0.0, 123.0};
  c.training = {
      1,
      2,
      3e-4,
      0.0,
      5,
      1.5,
      {{"books", 1.0}, {"retrieval", 0.1}},
      2,
      {0.25, 1.0 / 3.0},
      {{"corrector.lambda_rank", {"0", "1e-3"}}, {"corrector.hidden", {"[4, 5]", "[6]"}}}};
  c.threshold = {"fixed", 0.25, 1e-17};
  c.evaluate.retrieval = {0, 64, {"count"}};
  c.corpus.retrieval = {5, 6, 70, {"uuid", "dense"}};
  c.allocation = {"own", "other", 0.0, 0.5, {3, 8}, {"value"}, "paths", 2, 3, 4, 5, 99, 0.25, 6, 7};
  return c;
}

TEST(ConfigWriter, ReadingItGivesAnEqualConfig) {
  const Config config = unusual();
  const std::string text = to_yaml(config);
  const Config read = parsed(text);
  EXPECT_EQ(read, config) << text;
  EXPECT_EQ(to_yaml(read), text);
  EXPECT_EQ(parsed(to_yaml(parsed(kMinimal))), parsed(kMinimal));
}

TEST(ConfigWriter, NumbersAndWordsAreSafeForOtherReaders) {
  const std::string text = to_yaml(unusual());
  EXPECT_THAT(text, HasSubstr("name: \"no\"\n"));
  EXPECT_THAT(text, HasSubstr("train: \"null\"\n"));
  EXPECT_THAT(text, HasSubstr("epsilon: 1.0e-05\n"));  // YAML 1.1 needs the point
  EXPECT_THAT(text, HasSubstr("rho_c: 1.0\n"));
  EXPECT_THAT(text, HasSubstr("hidden: [1, 2, 3]\n"));
}

TEST(ConfigWriter, TracesDoNotDependOnPlaceThreadsAndMemory) {
  Config a = unusual(), b = a;
  b.run.dir = "elsewhere";
  b.run.threads = 64;
  b.model.memory_budget = 5'000'000'000;
  EXPECT_EQ(to_trace_yaml(a), to_trace_yaml(b));
  EXPECT_THAT(to_trace_yaml(a), Not(HasSubstr("threads")));
  b.run.seed = 2;
  EXPECT_NE(to_trace_yaml(a), to_trace_yaml(b));
  b = parsed(to_trace_yaml(a));
  b.run.dir = a.run.dir;
  b.run.threads = a.run.threads;
  b.model.memory_budget = a.model.memory_budget;
  EXPECT_EQ(a, b);
}

TEST(ConfigWriter, StagesDependOnTheirOwnKeysAndThoseBefore) {
  const std::vector<std::string> stages = {"allocate",  "collect", "calibrate", "train",
                                           "threshold", "export",  "evaluate",  "report"};
  /// Stages whose key changes with the override.
  const auto changed = [&](const std::string& override_text) {
    const std::string text = kMinimal + "corrector: {objective: paper}\n";
    std::string out;
    for (const std::string& stage : stages) {
      const bool differs =
          to_stage_yaml(parsed(text), stage) != to_stage_yaml(parsed(text, {override_text}), stage);
      out += differs ? stage[0] : '.';
    }
    return out;
  };
  EXPECT_EQ(changed("run.threads=2"), "........");
  EXPECT_EQ(changed("run.dir=x"), "........");
  EXPECT_EQ(changed("model.memory_budget=5"), "........");
  for (const char* all : {"run.seed=2", "model.path=x", "corpus.decode_steps=5",
                          "precisions=[K1V1]", "allocation.sites=3"}) {
    EXPECT_EQ(changed(all), "acctteer") << all;
  }
  for (const char* traces : {"decode.block=7", "trace.hidden=true", "window.cap=9"}) {
    EXPECT_EQ(changed(traces), ".cctteer") << traces;
  }
  EXPECT_EQ(changed("window.alpha=0.5"), "..ctteer");
  EXPECT_EQ(changed("labels.epsilon=0.5"), "..ctteer");
  EXPECT_EQ(changed("corrector.temperature=3"), "...tteer");
  EXPECT_EQ(changed("training.epochs=3"), "...tteer");
  EXPECT_EQ(changed("threshold.cost=3"), "....teer");
  EXPECT_EQ(changed("evaluate.retrieval.cases=3"), "......er");
  EXPECT_EQ(changed("run.name=x"), ".......r");
  EXPECT_THROW(to_stage_yaml(parsed(kMinimal), "sweep"), std::invalid_argument);
}

}  // namespace
}  // namespace dgap::schemas
