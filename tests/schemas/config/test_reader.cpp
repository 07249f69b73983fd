#include <unistd.h>

#include <filesystem>

#include "helpers.hpp"
#include "schemas/scheme/allocation.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ConfigReader, MinimalHasDefaults) {
  const Config config = parsed(kMinimal);
  Config expected;
  expected.model.path = "m.gguf";
  expected.corpus.path = "books";
  expected.precisions = {preset("K4V4")};
  EXPECT_EQ(config, expected);
}

TEST(ConfigReader, ReadsEveryTypeOfValue) {
  const Config c = parsed(
      "version: 1\n"
      "run: {name: a.b-c_1, seed: 18446744073709551615, threads: 0o10}\n"
      "model: {path: \"m x.gguf\", memory_budget: 8589934592}\n"
      "corpus:\n"
      "  path: 5\n"
      "  context_lengths: [256, 1024]\n"
      "  sites_per_book: {train: 6, test: 2}\n"
      "precisions: [uniform-K8V8, {name: mine, preset: K1V1, residual_window: 8}]\n"
      "trace: {hidden: true, alpha_max: 1}\n"
      "training: {learning_rate: 1e-3, weight_decay: .5}\n");
  EXPECT_EQ(c.run.seed, 18446744073709551615u);
  EXPECT_EQ(c.run.threads, 8);
  EXPECT_EQ(c.model.path, "m x.gguf");
  EXPECT_EQ(c.model.memory_budget, 8589934592);
  EXPECT_EQ(c.corpus.path, "5");  // text stays text
  EXPECT_EQ(c.corpus.context_lengths, (std::vector<int>{256, 1024}));
  EXPECT_EQ(c.corpus.sites_per_book, (SitesConfig{6, 4, 2}));
  EXPECT_TRUE(c.trace.hidden);
  EXPECT_EQ(c.trace.alpha_max, 1.0);
  EXPECT_EQ(c.training.learning_rate, 1e-3);
  EXPECT_EQ(c.training.weight_decay, 0.5);
  Scheme expected = preset("K1V1");
  expected.name = "mine";
  expected.residual_window = 8;
  EXPECT_EQ(c.precisions[1], expected);
}

TEST(ConfigReader, OneNumberOfSitesIsForAllSplits) {
  const Config c =
      parsed("model: {path: m}\ncorpus: {path: b, sites_per_book: 7}\nprecisions: [K4V4]\n");
  EXPECT_EQ(c.corpus.sites_per_book, (SitesConfig{7, 7, 7}));
}

TEST(ConfigReader, WordsOfYaml11StayText) {
  const Config c = parsed(kMinimal + "run: {name: on, dir: no}\n");
  EXPECT_EQ(c.run.name, "on");
  EXPECT_EQ(c.run.dir, "no");
  EXPECT_EQ(parsed(kMinimal + "run: {name: 23e2345}\n").run.name, "23e2345");
  for (const char* word : {"yes", "on", "True", "1", "\"true\""}) {
    EXPECT_THAT(refusal(kMinimal + "trace: {hidden: " + word + "}\n"),
                StartsWith("c.yaml:4: trace.hidden: expected true or false, got "))
        << word;
  }
}

TEST(ConfigReader, SchemesOfTheirOwn) {
  const Config c = parsed(
      "model: {path: m}\ncorpus: {path: b}\nprecisions:\n"
      "  - name: q4\n    key: {bits: 4, quantizer: asymmetric, axis: channel, group_size: 32}\n"
      "    value: {bits: 4, quantizer: asymmetric, group_size: 32}\n    residual_window: 64\n");
  EXPECT_EQ(c.precisions[0].name, "q4");
  EXPECT_EQ(c.precisions[0].family, "custom");
  EXPECT_EQ(c.precisions[0].key.axis, GroupAxis::channel);
  EXPECT_EQ(c.precisions[0].value.group_size, 32);
  EXPECT_EQ(c.precisions[0].residual_window, 64);
}

TEST(ConfigReader, PartsOfAModelMayDiffer) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("dgap-allocation-" + std::to_string(::getpid()) + ".json");
  write_allocation(file, {30, 3, {{.layers = {29}, .heads = {2}, .key = preset("K8V8").key}}});
  const std::string begin =
      "model: {path: m}\ncorpus: {path: b}\nprecisions:\n  - name: mixed\n"
      "    preset: K2V2\n";
  const Config c = parsed(begin + "    allocation: " + file.string() +
                          "\n    overrides:\n      - layers: 3\n        key: {bits: 4}\n"
                          "      - {layers: 0-1, heads: \"0,2\", value: {bits: 16}}\n");
  const Scheme& scheme = c.precisions[0];
  EXPECT_EQ(scheme.model_layers, 30);
  ASSERT_EQ(scheme.overrides.size(), 3u);  // the file's come last
  EXPECT_EQ(head_scheme(scheme, 30, 3, 1).key.bits, 4);
  EXPECT_EQ(head_scheme(scheme, 30, 1, 2).value.bits, 16);
  EXPECT_EQ(head_scheme(scheme, 30, 1, 1).value.bits, 2);
  EXPECT_EQ(head_scheme(scheme, 30, 29, 2).key, preset("K8V8").key);
  std::filesystem::remove(file);
  EXPECT_THAT(refusal(begin + "    overrides:\n      - {layers: 2-1, key: {bits: 4}}\n"),
              HasSubstr("precisions.0.overrides.0.layers: '2-1' is not a list"));
  EXPECT_THAT(refusal(begin + "    overrides: {layers: 2}\n"), HasSubstr("expected a list"));
  EXPECT_THAT(refusal(begin + "    overrides:\n      - {layer: 2}\n"),
              HasSubstr("precisions.0.overrides.0.layer: unknown key; did you mean layers?"));
}

struct Refused {
  const char* text;     // appended to kMinimal, so that it begins in line 4
  const char* message;  // how the error begins
};

class ConfigRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ConfigRefuses, NamingPlaceAndKey) {
  EXPECT_THAT(refusal(kMinimal + GetParam().text), StartsWith(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, ConfigRefuses,
    ::testing::Values(
        Refused{"window:\n  alhpa: 0.5\n",
                "c.yaml:5: window.alhpa: unknown key; did you mean alpha?"},
        Refused{"windw: {}\n", "c.yaml:4: windw: unknown key; did you mean window?"},
        Refused{"zzz: 1\n", "c.yaml:4: zzz: unknown key; known are version, run, model"},
        Refused{"\"<<\": 1\n", "c.yaml:4: <<: unknown key"},
        Refused{"\"a\\tb\": 1\n", "c.yaml:4: a\\x09b: unknown key"},
        Refused{"window:\n  cap: 5\n  alpha: .5\n  cap: 6\n",
                "c.yaml:7: window.cap: duplicate key; first given in line 5"},
        Refused{"model: {path: x}\n", "c.yaml:4: model: duplicate key; first given in line 1"},
        Refused{"adapters:\n  rank: 8\n",
                "c.yaml:5: adapters: known (low-rank adapters), but not built"},
        Refused{"sweep: {}\n", "c.yaml:4: sweep: known (many runs), but not built"}));

INSTANTIATE_TEST_SUITE_P(
    Types, ConfigRefuses,
    ::testing::Values(
        Refused{"window: {cap: big}\n",
                "c.yaml:4: window.cap: expected an integer (it is not an integer), got \"big\""},
        Refused{"window: {cap: 1.5}\n", "c.yaml:4: window.cap: expected an integer"},
        Refused{"window: {cap: 1e3}\n", "c.yaml:4: window.cap: expected an integer"},
        Refused{"window: {cap: \"8\"}\n",
                "c.yaml:4: window.cap: expected an integer, got the text \"8\""},
        Refused{"window: {cap: 0010}\n",
                "c.yaml:4: window.cap: expected an integer (a leading zero is ambiguous"},
        Refused{"window: {cap: 1_000}\n", "c.yaml:4: window.cap: expected an integer"},
        Refused{"window: {cap: [8]}\n", "c.yaml:4: window.cap: expected an integer, got a list"},
        Refused{"window: {cap: }\n", "c.yaml:4: window.cap: expected an integer, got nothing"},
        Refused{
            "window: {alpha: half}\n",
            "c.yaml:4: window.alpha: expected a number (it is not a finite number), got \"half\""},
        Refused{"window: {alpha: .inf}\n",
                "c.yaml:4: window.alpha: expected a number (it is not a finite number)"},
        Refused{"window: {alpha: nan}\n",
                "c.yaml:4: window.alpha: expected a number (it is not a finite number)"},
        Refused{"window: {alpha: 1.2.3}\n", "c.yaml:4: window.alpha: expected a number"},
        Refused{"window: {alpha: 1e400}\n",
                "c.yaml:4: window.alpha: expected a number (it is beyond the range"},
        Refused{"window: {alpha: 00.5}\n",
                "c.yaml:4: window.alpha: expected a number (a leading zero is ambiguous"},
        Refused{"window: 5\n", "c.yaml:4: window: expected a mapping of keys, got \"5\""},
        Refused{"window:\n", "c.yaml:4: window: expected a mapping of keys, got nothing"},
        Refused{"run: {name: [a]}\n", "c.yaml:4: run.name: expected text, got a list"},
        Refused{"run: {name: null}\n", "c.yaml:4: run.name: expected text, got nothing"},
        Refused{"run: {dir: \"a\\0b\"}\n",
                "c.yaml:4: run.dir: expected text without control characters"},
        Refused{"detector: {hidden: 64}\n",
                "c.yaml:4: detector.hidden: expected a list of integers, got \"64\""},
        Refused{"detector: {hidden: [64, x]}\n",
                "c.yaml:4: detector.hidden.1: expected an integer"},
        Refused{"corrector: {inputs: logits}\n",
                "c.yaml:4: corrector.inputs: expected a list, got \"logits\""}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, ConfigRefuses,
    ::testing::Values(
        Refused{"version: 2\n", "c.yaml:4: version: must be in [1, 1], got 2"},
        Refused{"run: {name: \"a/b\"}\n", "c.yaml:4: run.name: must be a name of letters, digits"},
        Refused{"run: {name: ..}\n", "c.yaml:4: run.name: must be a name"},
        Refused{"run: {name: \"\"}\n", "c.yaml:4: run.name: must be a name"},
        Refused{"run: {dir: \"\"}\n", "c.yaml:4: run.dir: must not be empty"},
        Refused{"run: {seed: -15850}\n", "c.yaml:4: run.seed: must not be negative, got -15850"},
        Refused{"run: {seed: 18446744073709551616}\n",
                "c.yaml:4: run.seed: expected an integer (it does not fit in 64 bits)"},
        Refused{"window: {cap: -1}\n", "c.yaml:4: window.cap: must be in [2, 100000], got -1"},
        Refused{"window: {cap: 9223372036854775808}\n",
                "c.yaml:4: window.cap: must be in [2, 100000], got 9223372036854775808"},
        Refused{"window: {alpha: 0}\n", "c.yaml:4: window.alpha: must be in (0, 1], got 0"},
        Refused{"window: {confidence: 1.0}\n",
                "c.yaml:4: window.confidence: must be in [0, 1), got 1.0"},
        Refused{"window: {alpha: 0.96}\n",
                "c.yaml:4: window.alpha: must be at most trace.alpha_max = 0.95, got 0.96"},
        Refused{"trace: {top: 256}\n",
                "c.yaml:4: trace.top: must be 0 or at least window.cap + 1 = 257, got 256"},
        Refused{"decode: {block: 0}\n", "c.yaml:4: decode.block: must be in [1, 4096], got 0"},
        Refused{"decode: {block: 4097}\n",
                "c.yaml:4: decode.block: must be in [1, 4096], got 4097"},
        Refused{"decode: {mode: bloked}\n",
                "c.yaml:4: decode.mode: must be one of blocked and stepwise, got \"bloked\"; did "
                "you mean blocked?"},
        Refused{"detector: {hidden: []}\n",
                "c.yaml:4: detector.hidden: must have 1 to 8 items, has 0"},
        Refused{"corrector: {inputs: []}\n", "c.yaml:4: corrector.inputs: must contain logits"},
        Refused{"corrector: {inputs: [logits, hidden]}\n",
                "c.yaml:4: corrector.inputs: hidden needs traces with hidden states: set "
                "trace.hidden to true"},
        Refused{"training: {weights: {books: -1}}\n",
                "c.yaml:4: training.weights.books: must be in [0, 1e+06], got -1"},
        Refused{"training: {weights: {a b: 1}}\n", "c.yaml:4: training.weights.a b: "},
        Refused{"training: {search: {corrector: {lambda_rank: [0, -1]}}}\n",
                "c.yaml:4: corrector.lambda_rank: must be in [0, 1000], got -1"},
        Refused{"training:\n  search:\n    corrector.hidden: [[64], []]\n",
                "c.yaml:6: corrector.hidden: must have 1 to 8 items, has 0"},
        Refused{"training: {search: {corrector: {form: [window], architecture: [transformer]}}}\n",
                "c.yaml:4: corrector.form: must be candidate where"},
        Refused{"training: {search: {training: {epochs: [1, 2]}}}\n",
                "c.yaml:4: training.search.training.epochs: cannot be searched; what can is "
                "corrector.architecture, "},
        Refused{"training: {search: {corrector: {lambda_reg: 1}}}\n",
                "c.yaml:4: training.search.corrector.lambda_reg: expected a list of 1 to 16 "
                "values, got \"1\""},
        Refused{"training: {search: {corrector: {lambda_reg: [1, 1]}}}\n",
                "c.yaml:4: training.search.corrector.lambda_reg: \"1\" is given twice"},
        Refused{"training: {search: {corrector: {lambda_reg: [\"1\"]}}}\n",
                "c.yaml:4: corrector.lambda_reg: expected a number, got the text \"1\""},
        Refused{
            "training: {search: {corrector: {lambda_reg: [0, 1, 2, 3, 4, 5, 6, 7], lambda_rank: "
            "[0, 1, 2, 3, 4, 5, 6, 7]}, training: {patience: [1, 2, 3, 4, 5]}}}\n",
            "c.yaml:4: training.search: has more than 256 combinations"},
        Refused{"training: {seeds: 0}\n", "c.yaml:4: training.seeds: must be in [1, 100], got 0"},
        Refused{"training: {learning_curve: 0.5}\n",
                "c.yaml:4: training.learning_curve: expected a list of numbers"},
        Refused{"training: {learning_curve: [0.5, 0.25]}\n",
                "c.yaml:4: training.learning_curve.1: must be greater than the item before it"},
        Refused{"training: {learning_curve: [1]}\n",
                "c.yaml:4: training.learning_curve.0: must be in (0, 1), got 1"},
        Refused{"training: {weights: [1]}\n",
                "c.yaml:4: training.weights: expected a mapping of keys, got a list"},
        Refused{"corrector: {inputs: [logits, logits]}\n",
                "c.yaml:4: corrector.inputs.1: \"logits\" is given twice"},
        Refused{"corrector: {architecture: transformer, form: window}\n",
                "c.yaml:4: corrector.form: must be candidate where corrector.architecture is "
                "transformer"},
        Refused{"corrector: {transformer: {width: 30}}\n",
                "c.yaml:4: corrector.transformer.heads: must divide corrector.transformer.width = "
                "30, got 4"},
        Refused{"corrector: {temperature: 2}\n",
                "c.yaml:4: corrector.temperature: must be 1 unless corrector.objective is paper, "
                "got 2"},
        Refused{"corpus.retrieval: {}\n", "c.yaml:4: corpus.retrieval: unknown key"},
        Refused{"evaluate: {retrieval: {tasks: [pass_key]}}\n",
                "c.yaml:4: evaluate.retrieval.tasks.0: must be one of passkey, single_key, "},
        Refused{"allocation: {base: K1V1, budget: 2}\n",
                "c.yaml:4: allocation.base: must be one of the precisions, got K1V1"},
        Refused{"allocation: {base: K4V4, name: K4V4, budget: 5}\n",
                "c.yaml:4: allocation.name: must not be the name of another precision"},
        Refused{"allocation: {base: K4V4}\n",
                "c.yaml:4: allocation.budget: either budget or floor must be given, and not both"},
        Refused{"allocation: {base: K4V4, budget: 5, floor: 0.9}\n",
                "c.yaml:4: allocation.budget: either budget or floor must be given, and not both"},
        Refused{"allocation: {base: K4V4, floor: 0.9, estimator: greedy}\n",
                "c.yaml:4: allocation.estimator: greedy selects up to a budget"},
        Refused{"allocation: {base: K4V4, budget: 5, tensors: []}\n",
                "c.yaml:4: allocation.tensors: must hold key, value or both"},
        Refused{
            "allocation: {base: K4V4, budget: 5, choices: [8, 4]}\n",
            "c.yaml:4: allocation.choices.1: must be greater than the item before it (8), got 4"},
        Refused{"threshold: {policy: bugdet}\n",
                "c.yaml:4: threshold.policy: must be one of fixed, budget, target and tradeoff"},
        Refused{"threshold: {value: 1.5}\n",
                "c.yaml:4: threshold.value: must be in [0, 1], got 1.5"}));

TEST(ConfigReader, WeightsAreNamesAndNumbers) {
  const Config c = parsed(
      "model: {path: m}\ncorpus: {path: b}\nprecisions: [K4V4]\n"
      "training: {weights: {books: 1, retrieval-2: 0.1}}\n");
  EXPECT_EQ(c.training.weights,
            (std::map<std::string, double>{{"books", 1.0}, {"retrieval-2", 0.1}}));
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml").training.weights, c.training.weights);
}

TEST(ConfigReader, SettingsOfQuantizers) {
  const Config c = parsed(
      "model: {path: m}\ncorpus: {path: b}\nprecisions:\n  - name: mine\n"
      "    key: {quantizer: turboquant_mse, bits: 2, outlier_bits: 3, rotate: true, rotation: "
      "haar}\n"
      "    value: {quantizer: codebook, bits: 1, levels: [-0.5, 1]}\n"
      "  - {name: eight, key: {quantizer: fp8_e4m3, scale: 0.5}, value: {quantizer: q8_0}}\n");
  EXPECT_EQ(c.precisions[0].key.outlier_bits, 3);
  EXPECT_EQ(c.precisions[0].key.rotation, RotationKind::haar);
  EXPECT_EQ(c.precisions[0].value.levels, (std::vector<float>{-0.5f, 1.0f}));
  EXPECT_EQ(c.precisions[1].key.scale, 0.5f);
  EXPECT_EQ(c.precisions[1].value.group_size, 32);
}

TEST(ConfigReader, CorpusAndPrecisionsAreChecked) {
  const std::string rest = "model: {path: m}\n";
  const auto corpus = [&](const std::string& keys) {
    return refusal(rest + "precisions: [K4V4]\ncorpus: {path: b, " + keys + "}\n");
  };
  EXPECT_THAT(corpus("context_lengths: [64, 32]"),
              StartsWith("c.yaml:3: corpus.context_lengths.1: must be greater than the item before "
                         "it (64), got 32"));
  EXPECT_THAT(corpus("context_lengths: [64, 64]"), HasSubstr("must be greater"));
  EXPECT_THAT(corpus("context_lengths: [0]"),
              HasSubstr("corpus.context_lengths.0: must be in [1, "));
  EXPECT_THAT(corpus("context_lengths: [4]"),
              HasSubstr("longer than the 4 sink tokens of K4V4, got 4"));
  EXPECT_THAT(corpus("sites_per_book: 0"), HasSubstr("corpus.sites_per_book: must be in [1, "));
  EXPECT_THAT(corpus("sites_per_book: {trian: 1}"),
              HasSubstr("sites_per_book.trian: unknown key; did you mean train?"));
  EXPECT_THAT(corpus("layout: flat"),
              HasSubstr("corpus.layout: must be one of pg19, texts, jsonl and chat, got \"flat\""));
  EXPECT_THAT(corpus("splits: {test: train}"), HasSubstr("corpus.splits.test: must differ"));
  EXPECT_THAT(corpus("splits: {validation: train}"),
              HasSubstr("corpus.splits.validation: must differ"));

  const auto precisions = [&](const std::string& items) {
    return refusal(rest + "corpus: {path: b}\nprecisions:\n" + items);
  };
  EXPECT_THAT(precisions("- K7V3\n"), StartsWith("c.yaml:4: precisions.0: 'K7V3' is not a preset"));
  EXPECT_THAT(precisions("- K4V4\n- K4V4\n"),
              StartsWith("c.yaml:5: precisions.1: the name K4V4 is taken by item 0"));
  EXPECT_THAT(precisions("- K4V4\n- {name: \"a b\", preset: K1V1}\n"),
              StartsWith("c.yaml:5: precisions.1: "));
  EXPECT_THAT(
      precisions("- {name: x, preset: K1V1, residual_windw: 1}\n"),
      StartsWith(
          "c.yaml:4: precisions.0.residual_windw: unknown key; did you mean residual_window?"));
  EXPECT_THAT(precisions("- name: x\n  preset: K1V1\n  key: {bits: [1]}\n"),
              StartsWith("c.yaml:6: precisions.0.key.bits: expected an integer, got a list"));
  EXPECT_THAT(precisions("- {preset: K1V1, residual_window: 8}\n"),
              HasSubstr("needs a name of its own"));
  EXPECT_THAT(precisions("- {name: x, preset: K1V1, prefill: quantized}\n"),
              StartsWith("c.yaml:4: precisions.0"));
  EXPECT_THAT(
      precisions("- [K1V1]\n"),
      StartsWith("c.yaml:4: precisions.0: expected a preset's name or a mapping, got a list"));
  EXPECT_THAT(precisions("  K4V4\n"), HasSubstr("precisions: expected a list of cache schemes"));
  EXPECT_THAT(refusal(rest + "corpus: {path: b}\nprecisions: []\n"),
              StartsWith("c.yaml:3: precisions: is required: at least one"));
}

TEST(ConfigReader, RequiredKeys) {
  EXPECT_THAT(refusal(""), HasSubstr("model.path: is required"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("model.path: is required"));
  EXPECT_THAT(refusal("model: {format: gguf}\n"), StartsWith("c.yaml:1: model.path: is required"));
  EXPECT_THAT(refusal("model: {path: m}\n"), HasSubstr("corpus.path: is required"));
  EXPECT_THAT(refusal("model: {path: m}\ncorpus: {path: b}\n"),
              HasSubstr("precisions: is required"));
  EXPECT_THAT(refusal("[]"), StartsWith("c.yaml:1: expected a mapping of keys, got a list"));
}

TEST(ConfigReader, FilesThatCannotBeReadAreUsageErrors) {
  EXPECT_THROW(read_config("/nonexistent/c.yaml"), base::UsageError);
  EXPECT_THROW(read_config("/"), base::UsageError);
}

TEST(ConfigReader, ConfigurationsOfTheRepository) {
  const std::filesystem::path folder = std::filesystem::path(DGAP_SOURCE_DIR) / "configs";
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const Config config = read_config(entry.path());
    EXPECT_EQ(config.run.name, entry.path().stem().string());
    ++seen;
  }
  EXPECT_GE(seen, 2);
}

TEST(ConfigReader, SearchGivesEveryCombination) {
  const Config c = parsed(std::string(kMinimal) +
                          "training: {search: {corrector: {hidden: [[64, 32], [8]]}, "
                          "training.learning_rate: [1e-3, 0.5]}}\n");
  const auto settings = search_settings(c);
  ASSERT_EQ(settings.size(), 4u);
  EXPECT_EQ(settings[0].values.at("corrector.hidden"), "[64, 32]");
  EXPECT_EQ(settings[0].config.corrector.hidden, (std::vector<int>{64, 32}));
  EXPECT_EQ(settings[0].config.training.learning_rate, 1e-3);
  EXPECT_EQ(settings[1].config.training.learning_rate, 0.5);
  EXPECT_EQ(settings[3].config.corrector.hidden, std::vector<int>{8});
  EXPECT_TRUE(settings[3].config.training.search.empty());
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml").training, c.training);
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml"), c);

  const Config plain = parsed(kMinimal);
  ASSERT_EQ(search_settings(plain).size(), 1u);
  EXPECT_EQ(search_settings(plain)[0].config, plain);
  const Config set =
      parse_config(kMinimal, "c.yaml", {"training.search.training.learning_rate=[0.1, 0.2]"});
  EXPECT_EQ(search_settings(set)[1].config.training.learning_rate, 0.2);
}

}  // namespace
}  // namespace dgap::schemas
