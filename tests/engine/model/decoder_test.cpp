#include "engine/model/decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <oneapi/tbb/global_control.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/backend/cpu/cpu_decoder.hpp"
#include "schemas/scheme/scheme.hpp"
#include "tests/engine/backend/isas.hpp"
#include "tests/engine/model/tiny_model.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::engine {
namespace {

using dgap::testing::KeepLogits;
using dgap::testing::random_text;
using dgap::testing::ReferenceForward;
using dgap::testing::TinyWeights;
using ::testing::HasSubstr;
using Tokens = std::span<const std::int32_t>;

DecoderOptions options(const std::string& compute, ExactCacheType cache = ExactCacheType::f16) {
  return {compute, cache};
}

std::vector<float> appended(Sequence& sequence, const Decoder& decoder, Tokens tokens) {
  KeepLogits sink(decoder.model());
  sequence.append(tokens, &sink);
  EXPECT_TRUE(sink.in_order);
  return sink.values;
}

template <class Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error of the expected kind";
  return "";
}

/// Schemes of every family, width and window rule.
std::vector<schemas::Scheme> schemes() {
  std::vector<schemas::Scheme> list;
  for (const char* name : {"exact",
                           "K1V1",
                           "K2V2",
                           "K4V4",
                           "K8V8",
                           "K1V4",
                           "K4V1-R32",
                           "K1V1-R1",
                           "K2V2-R16-S0",
                           "K1V1-R128",
                           "hf-quanto-4-R50",
                           "hf-quanto-2-axis1-R64",
                           "hf-hqq-2-R100",
                           "vllm-fp8",
                           "K16V1",
                           "K2V16",
                           "rotated-K1V1",
                           "rotated-K2V4-R16-S4",
                           "rotated-K8V8",
                           "uniform-K1V1",
                           "uniform-K4V4",
                           "uniform-K2V2-R8",
                           "kivi-2-R32",
                           "kivi-4-R64"})
    list.push_back(schemas::preset(name));
  schemas::Scheme channels = schemas::preset("uniform-K2V2-R32");  // keys in groups of 32 tokens
  channels.name = "channels", channels.family = "custom";
  channels.key.axis = schemas::GroupAxis::channel, channels.key.group_size = 32;
  channels.key.quantizer = schemas::Quantizer::asymmetric;
  list.push_back(channels);
  return list;
}

TEST(Decoder, LogitsEqualTheDefinitionInF64) {
  TinyWeights tied, untied, biased, windowed;
  untied.shape.tied_embeddings = false, untied.shape.kv_heads = 6, untied.shape.head_dim = 10;
  biased.shape.attention_bias = biased.shape.output_bias = true;
  windowed.shape.sliding_window = 37, windowed.shape.windowed = {false, true, true};
  for (const TinyWeights& weights : {tied, untied, biased, windowed}) {
    const std::vector<std::int32_t> text = random_text(150, weights.shape.vocab_size);
    const auto expected = ReferenceForward(weights).logits(text);
    for (const Isa isa : testing::isas())
      for (const char* compute : {"f32", "bf16"}) {
        const CpuDecoder decoder(weights, options(compute, ExactCacheType::f32), isa);
        SCOPED_TRACE(decoder.cpu_isa());
        const auto logits = appended(*decoder.begin(150, false), decoder, text);
        ASSERT_EQ(logits.size(), text.size() * static_cast<std::size_t>(weights.shape.vocab_size));
        double worst = 0, squares = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
          const auto vocab = static_cast<std::size_t>(weights.shape.vocab_size);
          const double error = logits[i] - expected[i / vocab][i % vocab];
          worst = std::max(worst, std::abs(error)), squares += error * error;
        }
        // Logits have deviation 4. f32: some hundred roundings of 2^-24 on the way. bf16: each of
        // 15 products rounds its operands to 2^-9.
        if (decoder.compute() == "f32")
          EXPECT_LT(worst, 2e-4);
        else
          EXPECT_LT(std::sqrt(squares / static_cast<double>(logits.size())), 0.12);
      }
  }
}

TEST(Decoder, ReadsAModelFile) {
  const dgap::testing::TinyModel model;
  const dgap::testing::TemporaryFile file(dgap::testing::tiny_gguf(model));
  const auto decoder = open_decoder(file.path(), "gguf", "cpu", options("f32"));
  EXPECT_EQ(decoder->model().vocab_size, model.vocabulary);
  EXPECT_EQ(decoder->model().hidden_size, model.hidden);
  EXPECT_EQ(decoder->model().layers, model.layers);
  EXPECT_EQ(decoder->model().kv_heads, model.kv_heads);
  EXPECT_EQ(decoder->model().context_length, 4096);
  EXPECT_EQ(decoder->model().model_sha256.size(), 64u);
  EXPECT_EQ(decoder->compute(), "f32");
  EXPECT_FALSE(decoder->cpu_isa().empty());
  const auto text = random_text(20, model.vocabulary);
  const auto logits = appended(*decoder->begin(20), *decoder, text);
  EXPECT_EQ(logits.size(), text.size() * 320);
}

TEST(Decoder, BlockedDecodingEqualsStepwiseBitForBit) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(440, weights.shape.vocab_size);
  const Tokens prefix = Tokens(text).first(300), rest = Tokens(text).subspan(300);
  for (const char* compute : {"f32", "bf16"}) {
    const CpuDecoder decoder(weights, options(compute));
    const auto exact = decoder.begin(300);
    exact->append(prefix, nullptr);
    for (const schemas::Scheme& scheme : schemes()) {
      SCOPED_TRACE(scheme.name + " " + compute);
      const auto stepwise = exact->fork(scheme, 300), blocked = exact->fork(scheme, 300);
      KeepLogits steps(decoder.model()), blocks(decoder.model());
      stepwise->append_stepwise(rest, &steps);
      for (std::size_t i = 0; i < rest.size(); i += 61) {
        KeepLogits block(decoder.model());
        blocked->append(rest.subspan(i, std::min<std::size_t>(61, rest.size() - i)), &block);
        blocks.values.insert(blocks.values.end(), block.values.begin(), block.values.end());
        blocks.hidden_states.insert(blocks.hidden_states.end(), block.hidden_states.begin(),
                                    block.hidden_states.end());
      }
      EXPECT_TRUE(steps.in_order);
      EXPECT_EQ(blocked->length(), 440);
      EXPECT_EQ(stepwise->length(), 440);
      EXPECT_TRUE(steps.values == blocks.values);
      EXPECT_TRUE(steps.hidden_states == blocks.hidden_states);
      EXPECT_EQ(stepwise->cache_bytes().total_bytes_key, blocked->cache_bytes().total_bytes_key);
    }
  }
}

TEST(Decoder, AQuantisedPrefillSeesWhatTheCacheHolds) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(330, weights.shape.vocab_size);
  for (const char* compute : {"f32", "bf16"}) {
    const CpuDecoder decoder(weights, options(compute));
    const auto distance = [&](const std::vector<float>& a, const std::vector<float>& b) {
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2);
      return std::sqrt(sum / static_cast<double>(a.size()));
    };
    const auto exact = appended(*decoder.begin(330), decoder, text);
    for (const char* name : {"uniform-K4V4", "rotated-K8V8-S4", "kivi-4-R32"})
      for (const auto window : {schemas::WindowRule::none, schemas::WindowRule::lagging}) {
        schemas::Scheme scheme = schemas::preset(name);
        if (scheme.family != "kivi")
          scheme.family = "custom", scheme.key.window = scheme.value.window = window;
        scheme.prefill = schemas::PrefillMode::quantized;
        SCOPED_TRACE(scheme.name + " " + compute);
        const auto whole = decoder.begin_quantized(scheme);
        const auto logits = appended(*whole, decoder, text);
        const auto steps = decoder.begin_quantized(scheme);
        KeepLogits stepwise(decoder.model());
        steps->append_stepwise(text, &stepwise);
        EXPECT_TRUE(stepwise.values == logits);
        EXPECT_EQ(whole->length(), 330);
        // The exact prefill and its quantised continuation are something else.
        const auto prefix = decoder.begin(330);
        prefix->append(Tokens(text).first(300), nullptr);
        const auto forked =
            appended(*prefix->fork(scheme, 300), decoder, Tokens(text).subspan(300));
        EXPECT_FALSE(std::equal(forked.begin(), forked.end(), logits.end() - std::ssize(forked)));
        if (scheme.name == "rotated-K8V8-S4") {
          EXPECT_LT(distance(logits, exact), 0.3);
        }
      }
  }
}

TEST(Decoder, MixedCachesDecodeBlockedAsStepwise) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(440, weights.shape.vocab_size);
  const int last = weights.shape.layers - 1;
  const auto base = [](const char* name) {
    schemas::Scheme scheme = schemas::preset(name);
    scheme.name = std::string("mixed-") + name;
    return scheme;
  };
  std::vector<schemas::Scheme> mixed = {base("K1V1-R16"), base("rotated-K2V2"), base("kivi-2-R32"),
                                        base("exact"), schemas::preset("asymkv-1-1-R32")};
  for (std::size_t i = 0; i < 4; ++i) {
    using schemas::preset;
    mixed[i].overrides = {
        {.layers = {0}, .heads = {}, .key = preset("rotated-K4V4").key, .value = {}},
        {.layers = {}, .heads = {0}, .key = {}, .value = preset("uniform-K8V8").value},
        {.layers = {last},
         .heads = {0},
         .key = schemas::TensorScheme{},
         .value = schemas::TensorScheme{}}};
  }
  for (const char* compute : {"f32", "bf16"}) {
    const CpuDecoder decoder(weights, options(compute));
    const auto exact = decoder.begin(300);
    exact->append(Tokens(text).first(300), nullptr);
    for (const schemas::Scheme& scheme : mixed) {
      SCOPED_TRACE(scheme.name + " " + compute);
      const Tokens rest = Tokens(text).subspan(300);
      KeepLogits steps(decoder.model());
      exact->fork(scheme, 300)->append_stepwise(rest, &steps);
      EXPECT_TRUE(appended(*exact->fork(scheme, 300), decoder, rest) == steps.values);
    }
  }
}

TEST(Decoder, SequencesDoNotInfluenceEachOther) {
  const TinyWeights weights;
  const CpuDecoder decoder(weights, options("auto"));
  const auto first = random_text(420, weights.shape.vocab_size);
  auto second = first;
  std::reverse(second.begin(), second.end());
  for (const char* name :
       {"K1V1-R16", "rotated-K2V4", "kivi-2-R32", "kivi-4-g64-R64", "asymkv-1-0-R32"}) {
    SCOPED_TRACE(name);
    const schemas::Scheme scheme = schemas::preset(name);
    if (scheme.value.group_size > weights.shape.head_dim) continue;
    const auto begin = [&](Tokens text) {
      auto sequence = decoder.begin(0);
      sequence->append(text.first(130), nullptr);
      return sequence;
    };
    const auto alone = [&](Tokens text) {
      const auto prefix = begin(text);
      return appended(*prefix->fork(scheme, 130), decoder, text.subspan(130));
    };
    const std::vector<float> expected[] = {alone(first), alone(second)};
    const auto a = begin(first), b = begin(second);
    const auto fork_a = a->fork(scheme, 130), fork_b = b->fork(scheme, 130);
    std::vector<float> together[2];
    for (std::size_t t = 130; t < 420; t += 29)
      for (const int which : {0, 1}) {
        const Tokens text(which == 0 ? first : second);
        const auto some = appended(which == 0 ? *fork_a : *fork_b, decoder,
                                   text.subspan(t, std::min<std::size_t>(29, 420 - t)));
        together[which].insert(together[which].end(), some.begin(), some.end());
      }
    EXPECT_TRUE(together[0] == expected[0]);
    EXPECT_TRUE(together[1] == expected[1]);
    // And a second fork of the same prefix is the first one again.
    EXPECT_TRUE(appended(*a->fork(scheme, 130), decoder, Tokens(first).subspan(130)) ==
                expected[0]);
  }
}

TEST(Decoder, AnExactForkEqualsMorePrefill) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(400, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("auto"));
  const auto whole = decoder.begin(0), prefix = decoder.begin(400);
  const auto expected = appended(*whole, decoder, text);
  prefix->append(Tokens(text).first(350), nullptr);
  const auto fork = prefix->fork(schemas::preset("exact"), 333);
  const auto logits = appended(*fork, decoder, Tokens(text).subspan(333));
  EXPECT_TRUE(
      std::equal(logits.begin(), logits.end(), expected.begin() + 333 * weights.shape.vocab_size));
}

TEST(Decoder, QuantisedDecodingComesNearerWithMoreBits) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(500, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("f32"));
  const auto exact = decoder.begin(500);
  exact->append(Tokens(text).first(400), nullptr);
  const auto distance = [&](const char* name) {
    const auto reference =
        appended(*exact->fork(schemas::preset("exact"), 400), decoder, Tokens(text).subspan(400));
    const auto logits =
        appended(*exact->fork(schemas::preset(name), 400), decoder, Tokens(text).subspan(400));
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) sum += std::pow(logits[i] - reference[i], 2);
    return std::sqrt(sum / static_cast<double>(logits.size()));
  };
  const double one = distance("K1V1"), two = distance("K2V2"), four = distance("K4V4"),
               eight = distance("K8V8");
  // Logits have deviation 4: at one and two bits nothing is left of a random model's text.
  EXPECT_GT(one, 2.0 * four);
  EXPECT_GT(two, 2.0 * four);
  EXPECT_GT(four, 8.0 * eight);
  EXPECT_LT(eight, 0.2);
}

/// Keys with a large constant in one slowly rotating channel, as Qwen2's biases give them.
class BiasedKeys : public TinyWeights {
 public:
  BiasedKeys() { shape.attention_bias = true; }
  std::vector<float> tensor(WeightRole role, int layer) const override {
    std::vector<float> values = TinyWeights::tensor(role, layer);
    if (role == WeightRole::key_bias)
      for (std::size_t i = 15; i < values.size(); i += 32) values[i] = 200.0f;
    return values;
  }
};

TEST(Decoder, BiasedKeysDoNotBreakTheDefaultPresets) {
  const BiasedKeys weights;
  const std::vector<std::int32_t> text = random_text(260, weights.shape.vocab_size);
  for (const char* compute : {"f32", "auto"}) {
    const CpuDecoder decoder(weights, options(compute));
    const auto exact = decoder.begin(200);
    exact->append(Tokens(text).first(200), nullptr);
    const auto logits = [&](const char* name) {
      return appended(*exact->fork(schemas::preset(name), 200), decoder, Tokens(text).subspan(200));
    };
    const auto reference = logits("exact");
    const auto distance = [&](const char* name) {
      const auto quantised = logits(name);
      double sum = 0;
      for (std::size_t i = 0; i < quantised.size(); ++i)
        sum += std::pow(quantised[i] - reference[i], 2);
      return std::sqrt(sum / static_cast<double>(quantised.size()));
    };
    EXPECT_LT(distance("K8V8"), 0.2) << compute;
    EXPECT_LT(4.0 * distance("K4V4"), distance("uniform-K4V4")) << compute;
  }
}

TEST(Decoder, ThePrefixMayGrowWhileForksLive) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(900, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("auto"));
  for (const char* name : {"exact", "K1V1", "K2V2-R32", "rotated-K1V1"}) {
    SCOPED_TRACE(name);
    const auto prefix = decoder.begin(0);  // grows as it goes
    prefix->append(Tokens(text).first(200), nullptr);
    const auto alone =
        appended(*prefix->fork(schemas::preset(name), 100), decoder, Tokens(text).subspan(100, 50));
    const auto fork = prefix->fork(schemas::preset(name), 100);
    auto together = appended(*fork, decoder, Tokens(text).subspan(100, 20));
    prefix->append(Tokens(text).subspan(200, 700), nullptr);
    const auto more = appended(*fork, decoder, Tokens(text).subspan(120, 30));
    together.insert(together.end(), more.begin(), more.end());
    EXPECT_TRUE(together == alone);
  }
}

TEST(Decoder, PiecesEqualTheWhole) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text =
      random_text(1200, weights.shape.vocab_size);  // several blocks of rows
  for (const char* compute : {"f32", "bf16"}) {
    const CpuDecoder decoder(weights, options(compute));
    const auto whole = decoder.begin(1200), pieces = decoder.begin(10);
    const auto expected = appended(*whole, decoder, text);
    std::vector<float> logits;
    for (std::size_t begin = 0, size = 1; begin < text.size(); begin += size, size = 3 * size + 1) {
      const auto some = appended(*pieces, decoder,
                                 Tokens(text).subspan(begin, std::min(size, text.size() - begin)));
      logits.insert(logits.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(logits == expected);
  }
}

TEST(Decoder, ResultsDoNotDependOnTheThreadCount) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(640, weights.shape.vocab_size);
  for (const char* compute : {"f32", "bf16"}) {
    std::vector<float> expected;
    for (const std::size_t threads : {1, 2, 3}) {
      const oneapi::tbb::global_control control(
          oneapi::tbb::global_control::max_allowed_parallelism, threads);
      const CpuDecoder decoder(weights, options(compute));
      const auto exact = decoder.begin(640);
      auto logits = appended(*exact, decoder, Tokens(text).first(600));
      const auto quantized = appended(*exact->fork(schemas::preset("K1V1-R16"), 600), decoder,
                                      Tokens(text).subspan(600));
      logits.insert(logits.end(), quantized.begin(), quantized.end());
      if (expected.empty()) expected = logits;
      EXPECT_TRUE(logits == expected) << threads << " threads, " << compute;
    }
  }
}

// Windows and biases, far beyond a tile of keys: prefill, blocks and steps agree bit for bit, and
// forks of every scheme do.
TEST(Decoder, SlidingWindowsAndBiasesInBlocksAndSteps) {
  TinyWeights weights;
  weights.shape.attention_bias = weights.shape.output_bias = true;
  weights.shape.sliding_window = 70, weights.shape.windowed = {true, false, true};
  const std::vector<std::int32_t> text = random_text(700, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("auto"));
  const auto exact = decoder.begin(700);
  const auto whole = appended(*exact, decoder, text);
  const auto stepped = decoder.begin(700);
  stepped->append(Tokens(text).first(600), nullptr);
  KeepLogits sink(decoder.model());
  stepped->append_stepwise(Tokens(text).subspan(600), &sink);
  EXPECT_TRUE(std::equal(sink.values.begin(), sink.values.end(),
                         whole.begin() + 600 * weights.shape.vocab_size));
  for (const schemas::Scheme& scheme : schemes()) {
    const auto blocked = appended(*exact->fork(scheme, 600), decoder, Tokens(text).subspan(600));
    KeepLogits steps(decoder.model());
    exact->fork(scheme, 600)->append_stepwise(Tokens(text).subspan(600), &steps);
    EXPECT_TRUE(steps.values == blocked) << scheme.name;
  }
}

// Products of queries and keys beyond what FP16 holds, as Qwen2's are: 128 * 60 * 60 = 460,800.
TEST(Decoder, LargeScoresStayFinite) {
  class Large : public TinyWeights {
   public:
    Large() { shape.attention_bias = true, shape.head_dim = 128; }
    std::vector<float> tensor(WeightRole role, int layer) const override {
      std::vector<float> values = TinyWeights::tensor(role, layer);
      if (role == WeightRole::query_bias || role == WeightRole::key_bias)
        std::fill(values.begin(), values.end(), 60.0f);
      return values;
    }
  };
  const Large weights;
  const std::vector<std::int32_t> text = random_text(300, weights.shape.vocab_size);
  for (const char* compute : {"f32", "bf16"})
    for (const ExactCacheType cache : {ExactCacheType::f16, ExactCacheType::f32}) {
      const CpuDecoder decoder(weights, options(compute, cache));
      const auto sequence = decoder.begin(300);
      EXPECT_NO_THROW(appended(*sequence, decoder, Tokens(text).first(290)));
      EXPECT_NO_THROW(appended(*sequence->fork(schemas::preset("K4V4"), 280), decoder,
                               Tokens(text).subspan(280)));
    }
}

TEST(Decoder, GivesTheLogitsThatAreAskedFor) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(600, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("f32"));
  const auto expected = appended(*decoder.begin(600), decoder, text);
  const std::int64_t vocab = weights.shape.vocab_size;
  for (const std::int64_t first : {1, 100, 511, 512, 599, 600}) {
    KeepLogits sink(decoder.model());
    decoder.begin(600)->append(text, &sink, first);
    EXPECT_TRUE(sink.in_order);
    EXPECT_EQ(sink.rows, 600 - first);
    EXPECT_TRUE(
        std::equal(sink.values.begin(), sink.values.end(), expected.begin() + first * vocab));
    // Hidden states are those that the output matrix is applied to.
    const std::vector<float> matrix = read_weights(weights, WeightRole::embedding);
    for (std::int64_t r = 0; r < sink.rows; r += 97) {
      double logit = 0;
      for (std::int64_t i = 0; i < weights.shape.hidden_size; ++i)
        logit +=
            double{
                sink.hidden_states[static_cast<std::size_t>(r * weights.shape.hidden_size + i)]} *
            matrix[static_cast<std::size_t>(7 * weights.shape.hidden_size + i)];
      EXPECT_NEAR(sink.values[static_cast<std::size_t>(r * vocab + 7)], logit, 1e-4);
    }
  }
}

TEST(Decoder, SequencesOfOneDecoderRunSideBySide) {
  const TinyWeights weights;
  const std::vector<std::int32_t> text = random_text(300, weights.shape.vocab_size);
  const CpuDecoder decoder(weights, options("auto"));
  const auto expected = appended(*decoder.begin(300), decoder, text);
  oneapi::tbb::parallel_for(
      0, 4, [&](int) { EXPECT_TRUE(appended(*decoder.begin(300), decoder, text) == expected); });
}

TEST(Decoder, RefusesWhatItCannotDo) {
  const TinyWeights weights;
  const CpuDecoder decoder(weights, options("auto"));
  const auto sequence = decoder.begin(10, false);
  const std::vector<std::int32_t> text = random_text(1990, weights.shape.vocab_size);
  sequence->append(text, nullptr);
  EXPECT_THAT(
      message_of<base::UsageError>([&] { sequence->append(Tokens(text).first(11), nullptr); }),
      ::testing::AllOf(HasSubstr("11 tokens after 1990"), HasSubstr("context of 2000")));
  for (const std::int32_t id : {-1, 331}) {
    const std::vector<std::int32_t> bad = {1, id};
    EXPECT_THAT(
        message_of<base::UsageError>([&] { sequence->append(bad, nullptr); }),
        ::testing::AllOf(HasSubstr("token 1"), HasSubstr(std::to_string(id)), HasSubstr("330")));
  }
  EXPECT_EQ(sequence->length(), 1990);
  EXPECT_THAT(message_of<base::UsageError>([&] { decoder.begin(2001); }), HasSubstr("2000"));
  EXPECT_THAT(message_of<base::UsageError>([&] { sequence->fork(schemas::preset("K4V4"), 5); }),
              HasSubstr("keeps keys before RoPE"));
  EXPECT_THAT(
      message_of<base::UsageError>([&] { sequence->fork(schemas::preset("rotated-K1V1"), 1991); }),
      ::testing::AllOf(HasSubstr("1991"), HasSubstr("1990")));
  const auto fork = sequence->fork(schemas::preset("rotated-K1V1"), 100);
  EXPECT_THAT(message_of<base::UsageError>([&] { fork->fork(schemas::preset("exact"), 1); }),
              HasSubstr("exact sequence"));
  schemas::Scheme groups = schemas::preset("uniform-K4V4");
  groups.family = "custom", groups.key.group_size = 24;
  EXPECT_THAT(message_of<base::UsageError>([&] { sequence->fork(groups, 5); }),
              ::testing::AllOf(HasSubstr("24"), HasSubstr("32")));
}

TEST(Decoder, NamesDevicesAndComputeTypes) {
  EXPECT_THAT(message_of<base::UnavailableError>([] { open_decoder("none", "auto", "cuda", {}); }),
              HasSubstr("CUDA"));
  EXPECT_THAT(message_of<base::UsageError>([] { open_decoder("none", "auto", "tpu", {}); }),
              HasSubstr("tpu"));
  EXPECT_THAT(
      message_of<base::UsageError>([] { open_decoder("none", "auto", "cpu", options("fp8")); }),
      HasSubstr("fp8"));
  EXPECT_THROW(open_decoder("/nonexistent.gguf", "auto", "cpu", {}), base::IoError);
}

TEST(Decoder, RefusesImpossibleHyperParameters) {
  TinyWeights heads;
  heads.shape.kv_heads = 4;
  EXPECT_THAT(message_of<base::IoError>([&] { CpuDecoder(heads, {}); }),
              HasSubstr("6 query heads"));
  TinyWeights windows;
  windows.shape.sliding_window = 5, windows.shape.windowed = {true};
  EXPECT_THAT(message_of<base::IoError>([&] { CpuDecoder(windows, {}); }), HasSubstr("each layer"));
}

TEST(Decoder, NamesThePositionOfLogitsThatAreNotFinite) {
  class Overflow : public TinyWeights {
   public:
    std::vector<float> tensor(WeightRole role, int layer) const override {
      std::vector<float> values = TinyWeights::tensor(role, layer);
      if (role == WeightRole::embedding)
        std::fill_n(values.begin() + 5 * shape.hidden_size, shape.hidden_size, 3e38f);
      return values;
    }
  };
  for (const char* compute : {"f32", "bf16"}) {
    const CpuDecoder decoder(Overflow(), options(compute));
    const auto sequence = decoder.begin(40);
    const std::vector<std::int32_t> text = {1, 2, 3, 4};
    // Row 5 of the tied output matrix overflows for every position.
    KeepLogits sink(decoder.model());
    EXPECT_THAT(message_of<base::FailedError>([&] { sequence->append(text, &sink); }),
                ::testing::AllOf(HasSubstr("position 0"), HasSubstr(compute)));
    EXPECT_EQ(sink.rows, 0);
  }
}

}  // namespace
}  // namespace dgap::engine
