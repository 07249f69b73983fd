#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "engine/formats/open_weights.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::engine {
namespace {

using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFile;
using testing::tiny_gguf;
using testing::tiny_values;
using testing::TinyModel;

/// Small, with head_dim != hidden / heads.
TinyModel small_model() {
  TinyModel model;
  model.layers = 2, model.heads = 4, model.kv_heads = 2, model.head_dim = 8;
  model.hidden = 24, model.intermediate = 40, model.vocabulary = 300;
  return model;
}

using Change = std::function<void(GgufWriter&)>;

/// The model's file with something added to its metadata or tensors.
std::string changed_file(const TinyModel& model, const Change& change) {
  GgufWriter writer;
  testing::write_tiny_metadata(writer, model);
  testing::write_tiny_tensors(writer, model);
  change(writer);
  return writer.finish();
}

std::string error_of(std::string_view bytes, base::ExitCode code) {
  const TemporaryFile file(bytes);
  try {
    open_weights(file.path(), "auto");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    return error.what();
  }
  return "no error";
}
std::string damage_of(const Change& change) {
  return error_of(changed_file(small_model(), change), base::ExitCode::io);
}
std::string refusal_of(const Change& change) {
  return error_of(changed_file(small_model(), change), base::ExitCode::usage);
}

TEST(GgufWeights, ReadsHyperParameters) {
  TinyModel model = small_model();
  model.rope_theta = 100000.0f;
  model.rms_epsilon = 1e-6f;
  const TemporaryFile file(tiny_gguf(model));
  const auto source = open_weights(file.path(), "gguf");
  const HyperParameters& p = source->parameters();
  EXPECT_EQ(p.name, "tiny");
  EXPECT_EQ(p.architecture, "llama");
  EXPECT_EQ(p.license, "apache-2.0");
  EXPECT_EQ(p.vocab_size, 300);
  EXPECT_EQ(p.hidden_size, 24);
  EXPECT_EQ(p.intermediate_size, 40);
  EXPECT_EQ(p.context_length, 4096);
  EXPECT_EQ(p.layers, 2);
  EXPECT_EQ(p.heads, 4);
  EXPECT_EQ(p.kv_heads, 2);
  EXPECT_EQ(p.head_dim, 8);
  EXPECT_EQ(p.rope.theta, 100000.0);
  EXPECT_EQ(p.rms_epsilon, double{1e-6f});
  EXPECT_TRUE(p.tied_embeddings);
  EXPECT_EQ(source->sha256(), base::sha256_hex(tiny_gguf(model)));
}

TEST(GgufWeights, DerivesHeadDimension) {
  TinyModel model;  // hidden = heads * head_dim, no key_length in the file
  const TemporaryFile file(tiny_gguf(model));
  EXPECT_EQ(open_weights(file.path(), "auto")->parameters().head_dim, model.head_dim);
}

TEST(GgufWeights, EveryTensorInHuggingFaceOrder) {
  TinyModel model = small_model();
  model.tied = false;
  const TemporaryFile file(tiny_gguf(model));
  const auto source = open_weights(file.path(), "auto");
  EXPECT_FALSE(source->parameters().tied_embeddings);
  EXPECT_EQ(read_weights(*source, WeightRole::embedding),
            tiny_values(model, "token_embd.weight", 300, 24));
  EXPECT_EQ(read_weights(*source, WeightRole::output_norm),
            tiny_values(model, "output_norm.weight", 1, 24));
  EXPECT_EQ(read_weights(*source, WeightRole::output_matrix),
            tiny_values(model, "output.weight", 300, 24));
  const auto layer = [&](WeightRole role) { return read_weights(*source, role, 1); };
  EXPECT_EQ(layer(WeightRole::attention_norm), tiny_values(model, "blk.1.attn_norm.weight", 1, 24));
  EXPECT_EQ(layer(WeightRole::ffn_norm), tiny_values(model, "blk.1.ffn_norm.weight", 1, 24));
  EXPECT_EQ(layer(WeightRole::query), tiny_values(model, "blk.1.attn_q.weight", 32, 24));
  EXPECT_EQ(layer(WeightRole::key), tiny_values(model, "blk.1.attn_k.weight", 16, 24));
  EXPECT_EQ(layer(WeightRole::value), tiny_values(model, "blk.1.attn_v.weight", 16, 24));
  EXPECT_EQ(layer(WeightRole::output), tiny_values(model, "blk.1.attn_output.weight", 24, 32));
  EXPECT_EQ(layer(WeightRole::gate), tiny_values(model, "blk.1.ffn_gate.weight", 40, 24));
  EXPECT_EQ(layer(WeightRole::up), tiny_values(model, "blk.1.ffn_up.weight", 40, 24));
  EXPECT_EQ(layer(WeightRole::down), tiny_values(model, "blk.1.ffn_down.weight", 24, 40));
}

// With head_dim 4, rows 0, 1, 2, 3 of a head are stored as 0, 2, 1, 3; K by its own head count.
TEST(GgufWeights, UndoesTheRowOrderOfRotatedTensors) {
  TinyModel model;
  model.layers = 1, model.heads = 4, model.kv_heads = 2, model.head_dim = 4, model.hidden = 16;
  GgufWriter writer;
  testing::write_tiny_metadata(writer, model);
  const auto rows = [](std::int64_t count) {  // row r holds the number r in every column
    std::vector<float> values;
    for (std::int64_t r = 0; r < count; ++r) values.insert(values.end(), 16, static_cast<float>(r));
    return values;
  };
  const auto ones = [](std::size_t n) { return std::vector<float>(n, 1.0f); };
  writer.tensor("token_embd.weight", {16, 320}, GgufTensorType::f32, ones(16 * 320));
  writer.tensor("output_norm.weight", {16}, GgufTensorType::f32, ones(16));
  writer.tensor("blk.0.attn_norm.weight", {16}, GgufTensorType::f32, ones(16));
  writer.tensor("blk.0.ffn_norm.weight", {16}, GgufTensorType::f32, ones(16));
  writer.tensor("blk.0.attn_q.weight", {16, 16}, GgufTensorType::f32, rows(16));
  writer.tensor("blk.0.attn_k.weight", {16, 8}, GgufTensorType::f32, rows(8));
  writer.tensor("blk.0.attn_v.weight", {16, 8}, GgufTensorType::f32, rows(8));
  writer.tensor("blk.0.attn_output.weight", {16, 16}, GgufTensorType::f32, rows(16));
  writer.tensor("blk.0.ffn_gate.weight", {16, 128}, GgufTensorType::f32, rows(128));
  writer.tensor("blk.0.ffn_up.weight", {16, 128}, GgufTensorType::f32, rows(128));
  writer.tensor("blk.0.ffn_down.weight", {128, 16}, GgufTensorType::f32, ones(128 * 16));
  const TemporaryFile file(writer.finish());
  const auto source = open_weights(file.path(), "auto");
  const auto first_column = [](const std::vector<float>& matrix) {
    std::vector<float> column;
    for (std::size_t at = 0; at < matrix.size(); at += 16) column.push_back(matrix[at]);
    return column;
  };
  EXPECT_THAT(first_column(read_weights(*source, WeightRole::query)),
              ::testing::ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  EXPECT_THAT(first_column(read_weights(*source, WeightRole::key)),
              ::testing::ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(first_column(read_weights(*source, WeightRole::value)),
              ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(GgufWeights, QuantizedTypesStayNearTheirValues) {
  // Largest rounding error relative to the largest value of a block: half a step of the type.
  const std::pair<GgufTensorType, float> types[] = {
      {GgufTensorType::f16, 0x1p-11f},
      {GgufTensorType::bf16, 0x1p-8f},
      {GgufTensorType::q8_0, 0.5f / 127.0f + 0x1p-11f},
      {GgufTensorType::q4_1, 1.0f / 15.0f + 0x1p-9f}};
  for (const auto& [type, error] : types) {
    TinyModel model;
    model.type = type;
    const TemporaryFile file(tiny_gguf(model));
    const std::vector<float> read =
        read_weights(*open_weights(file.path(), "auto"), WeightRole::key);
    const std::vector<float> exact = tiny_values(model, "blk.0.attn_k.weight", 32, 64);
    ASSERT_EQ(read.size(), exact.size());
    float largest = 0.0f, difference = 0.0f;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      largest = std::max(largest, std::abs(exact[i]));
      difference = std::max(difference, std::abs(read[i] - exact[i]));
    }
    EXPECT_LE(difference, error * largest) << gguf_block(type).name;
    EXPECT_GT(difference, 0.0f) << gguf_block(type).name;
  }
}

TEST(GgufWeights, RefusesNonFiniteValues) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    TinyModel model = small_model();
    GgufWriter writer;
    testing::write_tiny_metadata(writer, model);
    testing::write_tiny_tensors(writer, model);
    std::string bytes = writer.finish();
    const std::vector<float> gate = tiny_values(model, "blk.1.ffn_gate.weight", 40, 24);
    const std::size_t at = bytes.find(testing::encode_values(GgufTensorType::f32, gate));
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at + 4 * (24 * 39 + 23), 4, testing::bytes_of(bad));
    const TemporaryFile file(bytes);
    const auto source = open_weights(file.path(), "auto");
    EXPECT_NO_THROW(read_weights(*source, WeightRole::gate, 0));
    try {
      check_weights(*source);
      ADD_FAILURE() << "no error";
    } catch (const base::IoError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("'blk.1.ffn_gate.weight' holds values that are infinite or not "
                            "numbers: 1 of 960"));
    }
  }
}

TEST(GgufWeights, NamesWhatIsMissing) {
  TinyModel model = small_model();
  GgufWriter writer;
  testing::write_tiny_metadata(writer, model);
  TinyModel shorter = model;
  shorter.layers = 1;
  testing::write_tiny_tensors(writer, shorter);
  const std::string message = error_of(writer.finish(), base::ExitCode::io);
  EXPECT_THAT(message, HasSubstr("the tensor 'blk.1.attn_norm.weight' is missing"));
  EXPECT_THAT(message, Not(HasSubstr("truncated")));
  EXPECT_THAT(error_of(GgufWriter().finish(), base::ExitCode::io),
              HasSubstr("'general.architecture' is missing"));
}

TEST(GgufWeights, NamesTensorsThatNothingUses) {
  const std::vector<float> row(24, 0.0f);
  const std::string message = damage_of([&](GgufWriter& writer) {
    for (int i = 0; i < 7; ++i) {
      writer.tensor("extra." + std::to_string(i), {24}, GgufTensorType::f32, row);
    }
  });
  EXPECT_THAT(message, HasSubstr("holds 7 tensors"));
  EXPECT_THAT(message, HasSubstr("'extra.4'"));
  EXPECT_THAT(message, Not(HasSubstr("'extra.5'")));
}

TEST(GgufWeights, ChecksShapes) {
  TinyModel model = small_model();
  GgufWriter writer;
  TinyModel other = model;
  other.kv_heads = 4;
  testing::write_tiny_metadata(writer, model);
  testing::write_tiny_tensors(writer, other);
  EXPECT_THAT(
      error_of(writer.finish(), base::ExitCode::io),
      HasSubstr(
          "'blk.0.attn_k.weight' has the shape [24, 32]; the hyper-parameters ask for [24, 16]"));
  GgufWriter vocabulary;
  other = model;
  other.vocabulary = 301;
  testing::write_tiny_metadata(vocabulary, model);
  testing::write_tiny_tensors(vocabulary, other);
  EXPECT_THAT(error_of(vocabulary.finish(), base::ExitCode::io),
              HasSubstr("'llama.vocab_size' is 300, but 'token_embd.weight' has 301 rows"));
}

TEST(GgufWeights, RefusesWhatWouldChangeTheModel) {
  const std::vector<float> few(4, 1.0f);
  EXPECT_THAT(refusal_of([](GgufWriter& w) { w.string("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("'llama.rope.scaling.type' is 'longrope', not supported"));
  EXPECT_THAT(refusal_of([](GgufWriter& w) { w.f32("llama.rope.scaling.attn_factor", 2.0f); }),
              HasSubstr("'llama.rope.scaling.attn_factor' is supported with YaRN alone"));
  EXPECT_THAT(
      refusal_of([](GgufWriter& w) { w.f32("llama.rope.scaling.yarn_log_multiplier", 0.1f); }),
      HasSubstr("'llama.rope.scaling.yarn_log_multiplier' is 0.1"));
  EXPECT_THAT(refusal_of([](GgufWriter& w) { w.u32("llama.expert_count", 8); }),
              HasSubstr("'llama.expert_count' is 8"));
  EXPECT_THAT(refusal_of([](GgufWriter& w) { w.f32("llama.logit_scale", 0.5f); }),
              HasSubstr("'llama.logit_scale' is 0.5"));
  EXPECT_THAT(refusal_of([&](GgufWriter& w) {
                w.tensor("rope_factors_long.weight", {4}, GgufTensorType::f32, few);
              }),
              HasSubstr("'rope_factors_long.weight'; LongRoPE"));
  EXPECT_THAT(refusal_of([&](GgufWriter& w) {
                w.tensor("blk.0.ffn_gate_exps.weight", {4}, GgufTensorType::f32, few);
              }),
              HasSubstr("mixtures of experts"));
}

/// The hyper-parameters of the model with something added to its metadata or tensors.
HyperParameters parameters_of(const Change& change) {
  const TemporaryFile file(changed_file(small_model(), change));
  return open_weights(file.path(), "auto")->parameters();
}

TEST(GgufWeights, ReadsRopeScaling) {
  using Scaling = RopeParameters::Scaling;
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const HyperParameters p = parameters_of([&](GgufWriter& w) { w.f32(key, 4.0f); });
    EXPECT_EQ(p.rope.scaling, Scaling::linear);
    EXPECT_EQ(p.rope.factor, 4.0);
    EXPECT_EQ(p.context_length, 4 * 4096);
  }
  const HyperParameters yarn = parameters_of([](GgufWriter& w) {
    w.string("llama.rope.scaling.type", "yarn");
    w.f32("llama.rope.scaling.factor", 4.0f);
    w.u32("llama.rope.scaling.original_context_length", 1024);
    w.f32("llama.rope.scaling.yarn_beta_fast", 16.0f);
    w.f32("llama.rope.scaling.attn_factor", 2.0f);
  });
  EXPECT_EQ(yarn.rope.scaling, Scaling::yarn);
  EXPECT_EQ(yarn.rope.original_context, 1024);
  EXPECT_EQ(yarn.rope.beta_fast, 16.0);
  EXPECT_DOUBLE_EQ(*yarn.rope.attention_factor, 2.0 * (0.1 * std::log(4.0) + 1.0));
  EXPECT_EQ(yarn.context_length, 4096);  // 4 * 1024, once
  const HyperParameters llama3 = parameters_of([](GgufWriter& w) {
    w.tensor("rope_freqs.weight", {4}, GgufTensorType::f32, std::vector<float>{1, 1, 2, 8});
  });
  EXPECT_EQ(llama3.rope.scaling, Scaling::none);
  EXPECT_EQ(llama3.rope.divisors, (std::vector<double>{1, 1, 2, 8}));
  EXPECT_THAT(damage_of([](GgufWriter& w) {
                w.tensor("rope_freqs.weight", {3}, GgufTensorType::f32,
                         std::vector<float>(3, 1.0f));
              }),
              HasSubstr("'rope_freqs.weight' must hold 4 values"));
  EXPECT_THAT(damage_of([](GgufWriter& w) {
                w.tensor("rope_freqs.weight", {4}, GgufTensorType::f32,
                         std::vector<float>(4, 0.0f));
              }),
              HasSubstr("'rope_freqs.weight' holds 0; it must be positive"));
}

TEST(GgufWeights, ReadsSlidingWindowsOfLlamaAlone) {
  const auto window = [](GgufWriter& w) { w.u32("llama.attention.sliding_window", 128); };
  const HyperParameters p = parameters_of(window);
  EXPECT_EQ(p.window(0), 128);
  EXPECT_EQ(p.window(1), 128);
  EXPECT_EQ(parameters_of([](GgufWriter&) {}).window(0), 0);
}

TEST(GgufWeights, AcceptsHarmlessKeys) {
  EXPECT_EQ(damage_of([](GgufWriter& w) {
              w.string("llama.rope.scaling.type", "none");
              w.f32("llama.rope.scaling.factor", 1.0f);
              w.u32("llama.expert_count", 0);
              w.string("other.key", "value");
            }),
            "no error");
}

TEST(GgufWeights, RefusesOtherArchitectures) {
  for (const char* name : {"qwen3", "gemma", "mixtral"}) {
    GgufWriter writer;
    writer.string("general.architecture", name);
    EXPECT_THAT(error_of(writer.finish(), base::ExitCode::usage),
                HasSubstr("architecture '" + std::string(name) +
                          "' is not supported in this version; supported are llama and qwen2"));
  }
}

TEST(GgufWeights, ChecksHyperParameters) {
  const auto with = [](const std::function<void(TinyModel&)>& change, base::ExitCode code) {
    TinyModel model = small_model();
    change(model);
    GgufWriter writer;
    testing::write_tiny_metadata(writer, model);
    testing::write_tiny_tensors(writer, small_model());
    return error_of(writer.finish(), code);
  };
  using base::ExitCode;
  EXPECT_THAT(with([](TinyModel& m) { m.layers = 0; }, ExitCode::io),
              HasSubstr("'llama.block_count' is 0"));
  EXPECT_THAT(with([](TinyModel& m) { m.layers = -1; }, ExitCode::io),
              HasSubstr("must lie in 1 .."));
  EXPECT_THAT(with([](TinyModel& m) { m.layers = 2147483647; }, ExitCode::io),
              HasSubstr("'blk.2.attn_norm.weight' is missing"));
  EXPECT_THAT(with([](TinyModel& m) { m.kv_heads = 3; }, ExitCode::io),
              HasSubstr("is not a multiple of"));
  EXPECT_THAT(with([](TinyModel& m) { m.head_dim = 7; }, ExitCode::io), HasSubstr("is odd"));
  EXPECT_THAT(with([](TinyModel& m) { m.rms_epsilon = std::nanf(""); }, ExitCode::io),
              HasSubstr("must be positive"));
  EXPECT_THAT(with([](TinyModel& m) { m.rope_theta = 0.0f; }, ExitCode::io),
              HasSubstr("must be positive"));
  EXPECT_THAT(refusal_of([](GgufWriter&) {}), HasSubstr("no error"));
  GgufWriter partial;  // RoPE over half of the head
  TinyModel model;
  testing::write_tiny_metadata(partial, model);
  std::string bytes = partial.finish();
  const std::size_t key = bytes.find("llama.rope.dimension_count");
  bytes[key + std::string_view("llama.rope.dimension_count").size() + 4] = 8;
  EXPECT_THAT(error_of(bytes, ExitCode::usage),
              HasSubstr("'llama.rope.dimension_count' is 8, but the head dimension is 16"));
}

TEST(OpenWeights, ChoosesTheFormat) {
  const TemporaryFile file(tiny_gguf());
  EXPECT_NO_THROW(open_weights(file.path(), "auto"));
  EXPECT_NO_THROW(open_weights(file.path(), "gguf"));
  EXPECT_THROW(open_weights(file.path(), "huggingface"), base::UsageError);
  EXPECT_THROW(open_weights("/", "auto"), base::IoError);
  EXPECT_THROW(open_weights("/", "gguf"), base::UsageError);
  EXPECT_THROW(open_weights("/nonexistent/model.gguf", "auto"), base::IoError);
  const TemporaryFile text("just text", ".txt");
  EXPECT_THROW(open_weights(text.path(), "auto"), base::IoError);
  try {
    open_weights(file.path(), "ggfu");
    ADD_FAILURE() << "no error";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'ggfu'"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'gguf'?"));
  }
}

}  // namespace
}  // namespace dgap::engine
