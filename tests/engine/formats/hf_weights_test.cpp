#include "engine/formats/hf_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "engine/formats/open_weights.hpp"
#include "tests/engine/testing/tiny_hf.hpp"

namespace dgap::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::hf_tensors;
using testing::HfTensor;
using testing::json_text;
using testing::llama_config;
using ::testing::Not;
using testing::safetensors;
using testing::TemporaryFile;
using testing::TemporaryFolder;
using testing::tiny_values;
using testing::TinyModel;
using testing::write_hf;

/// hidden 96, heads 4, head_dim 32: q is [128, 96], o is [96, 128].
TinyModel small_model() {
  TinyModel model;
  model.layers = 2, model.heads = 4, model.kv_heads = 2, model.head_dim = 32;
  model.hidden = 96, model.intermediate = 40, model.vocabulary = 300;
  return model;
}

std::string error_of(const TemporaryFolder& folder, base::ExitCode code = base::ExitCode::io) {
  try {
    open_weights(folder.path(), "auto");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(folder.path()));
    return error.what();
  }
  return "no error";
}

/// Two shards and their index; the layers' tensors, but for the first layer's, are in the second.
struct Sharded {
  explicit Sharded(const TinyModel& model = small_model()) {
    folder.write("config.json", json_text(llama_config(model)));
    for (const HfTensor& tensor : hf_tensors(model)) {
      const bool second = tensor.name.find("layers.1.") != std::string::npos;
      (second ? b : a).push_back(tensor);
      map[tensor.name] = second ? kB : kA;
    }
    write();
  }
  void write() const {
    folder.write(kA, safetensors(a));
    folder.write(kB, safetensors(b));
    std::string text = R"({"metadata": {"total_size": 1}, "weight_map": {)";
    for (const auto& [tensor, file] : map)
      text += (text.back() == '{' ? "\"" : ", \"") + tensor + "\": \"" + file + "\"";
    folder.write("model.safetensors.index.json", text + "}}");
  }
  static constexpr const char* kA = "model-00001-of-00002.safetensors";
  static constexpr const char* kB = "model-00002-of-00002.safetensors";
  TemporaryFolder folder;
  std::vector<HfTensor> a, b;
  std::map<std::string, std::string> map;
};

TEST(HfWeights, EveryTensorAndEveryType) {
  for (const GgufTensorType type :
       {GgufTensorType::f32, GgufTensorType::f16, GgufTensorType::bf16}) {
    TinyModel model = small_model();
    model.tied = false;
    const TemporaryFolder folder;
    write_hf(folder, model, type);
    const auto source = open_weights(folder.path(), "huggingface");
    EXPECT_EQ(source->parameters().head_dim, 32);
    const auto same = [&](WeightRole role, const char* name, std::int64_t rows,
                          std::int64_t columns) {
      const std::vector<float> read = read_weights(*source, role, 1);
      const std::vector<float> exact = tiny_values(model, name, rows, columns);
      ASSERT_EQ(read.size(), exact.size());
      for (std::size_t i = 0; i < read.size(); ++i) {
        const float expected = type == GgufTensorType::f32 ? exact[i]
                               : type == GgufTensorType::f16
                                   ? base::round_to_half(exact[i])
                                   : base::from_bfloat16(base::to_bfloat16(exact[i]));
        ASSERT_EQ(read[i], expected) << name << " " << i;
      }
    };
    same(WeightRole::embedding, "token_embd.weight", 300, 96);
    same(WeightRole::output_matrix, "output.weight", 300, 96);
    same(WeightRole::output_norm, "output_norm.weight", 1, 96);
    same(WeightRole::query, "blk.1.attn_q.weight", 128, 96);
    same(WeightRole::key, "blk.1.attn_k.weight", 64, 96);
    same(WeightRole::value, "blk.1.attn_v.weight", 64, 96);
    same(WeightRole::output, "blk.1.attn_output.weight", 96, 128);
    same(WeightRole::down, "blk.1.ffn_down.weight", 96, 40);
    same(WeightRole::attention_norm, "blk.1.attn_norm.weight", 1, 96);
  }
}

TEST(HfWeights, SameNumbersAsFromGguf) {
  const TinyModel model = small_model();
  const TemporaryFolder folder;
  write_hf(folder, model);
  const TemporaryFile file(testing::tiny_gguf(model));
  const auto a = open_weights(folder.path(), "auto"), b = open_weights(file.path(), "auto");
  for (const WeightRole role : kModelRoles)
    EXPECT_EQ(read_weights(*a, role), read_weights(*b, role));
  for (const WeightRole role : kLayerRoles)
    EXPECT_EQ(read_weights(*a, role, 1), read_weights(*b, role, 1));
}

TEST(HfWeights, Qwen2BringsBiases) {
  const TinyModel model = small_model();
  const TemporaryFolder folder;
  folder.write("config.json", json_text(testing::hf_config(model, "Qwen2ForCausalLM", "qwen2")));
  std::vector<HfTensor> tensors = hf_tensors(model, true);
  folder.write("model.safetensors", safetensors(tensors));
  const auto source = open_weights(folder.path(), "auto");
  EXPECT_EQ(read_weights(*source, WeightRole::key_bias, 1),
            tiny_values(model, "blk.1.attn_k.bias", 1, 64));
  EXPECT_TRUE(read_weights(*source, WeightRole::attention_output_bias, 1).empty());
  folder.write("model.safetensors", safetensors(hf_tensors(model)));
  EXPECT_THAT(error_of(folder), HasSubstr("'model.layers.0.self_attn.q_proj.bias' is missing"));
  // A Llama that says nothing of biases must not have any.
  folder.write("config.json", json_text(llama_config(model)));
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_THAT(error_of(folder), AllOf(HasSubstr("holds 6 tensors that a llama model"),
                                      HasSubstr("'model.layers.0.self_attn.k_proj.bias'")));
}

TEST(HfWeights, ReadsShards) {
  const Sharded model;
  const auto source = open_weights(model.folder.path(), "auto");
  EXPECT_EQ(read_weights(*source, WeightRole::up, 1),
            tiny_values(small_model(), "blk.1.ffn_up.weight", 40, 96));
  const std::string listing = base::sha256_hex(json_text(llama_config(small_model()))) +
                              "  config.json\n" + base::sha256_hex(safetensors(model.a)) + "  " +
                              Sharded::kA + "\n" + base::sha256_hex(safetensors(model.b)) + "  " +
                              Sharded::kB + "\n";
  EXPECT_EQ(source->sha256(), base::sha256_hex(listing));
}

TEST(HfWeights, MissingShard) {
  const Sharded model;
  model.folder.remove(Sharded::kB);
  EXPECT_THAT(error_of(model.folder), AllOf(HasSubstr(std::string(Sharded::kB) + ": is missing"),
                                            HasSubstr("'model.layers.1.input_layernorm.weight'")));
}

TEST(HfWeights, ShardWithoutATensorThatTheIndexPromises) {
  Sharded model;
  model.b.pop_back();
  model.write();
  EXPECT_THAT(error_of(model.folder), HasSubstr("does not hold the tensor "
                                                "'model.layers.1.mlp.down_proj.weight', although "
                                                "the index says so"));
}

TEST(HfWeights, TensorsInTwoPlaces) {
  Sharded model;
  model.b.push_back(model.a.front());
  model.write();
  const auto twice = AllOf(HasSubstr("holds the tensor 'model.embed_tokens.weight', and so does"),
                           HasSubstr(Sharded::kA), HasSubstr(Sharded::kB));
  EXPECT_THAT(error_of(model.folder), twice);
  model.folder.remove("model.safetensors.index.json");  // without one, all files count
  EXPECT_THAT(error_of(model.folder), twice);
}

TEST(HfWeights, TensorInAnotherShardThanTheIndexSays) {
  Sharded model;
  model.map["model.norm.weight"] = Sharded::kB;
  model.write();
  EXPECT_THAT(error_of(model.folder),
              HasSubstr("holds the tensor 'model.norm.weight'; the index says that it is in "
                        "'model-00002-of-00002.safetensors'"));
}

TEST(HfWeights, TensorThatTheIndexDoesNotList) {
  Sharded model;
  model.map.erase("model.norm.weight");
  model.write();
  EXPECT_THAT(error_of(model.folder),
              HasSubstr("'model.norm.weight', which the index does not list"));
}

TEST(HfWeights, IndexWinsOverStrayFiles) {
  const Sharded model;
  std::vector<HfTensor> others = model.a;
  for (HfTensor& tensor : others)
    for (float& x : tensor.values) x = 7.0f;
  model.folder.write("model.safetensors", safetensors(others));
  const auto source = open_weights(model.folder.path(), "auto");
  EXPECT_EQ(read_weights(*source, WeightRole::embedding),
            tiny_values(small_model(), "token_embd.weight", 300, 96));
  EXPECT_THAT(source->parameters().notes,
              ElementsAre(HasSubstr("/model.safetensors: is not in the index, and not read")));
}

TEST(HfWeights, IndexMustNameFilesOfTheFolder) {
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""}) {
    Sharded model;
    model.map["model.norm.weight"] = name;
    model.write();
    EXPECT_THAT(error_of(model.folder),
                HasSubstr("'model.norm.weight' is in '" + std::string(name) + "'"));
  }
  const Sharded model;
  for (const char* text : {"{}", "[]", "{", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
                           R"({"weight_map": {"a": "b", "a": "c"}})"}) {
    model.folder.write("model.safetensors.index.json", text);
    EXPECT_THAT(error_of(model.folder), HasSubstr("model.safetensors.index.json")) << text;
  }
}

TEST(HfWeights, FoldersThatAreNotModels) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder), HasSubstr("config.json is missing"));
  folder.write("config.json", json_text(llama_config(small_model())));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(error_of(folder), HasSubstr("holds no safetensors file"));
}

TEST(HfWeights, ChecksNamesAndShapes) {
  const TinyModel model = small_model();
  const TemporaryFolder folder;
  write_hf(folder, model);
  std::vector<HfTensor> tensors = hf_tensors(model);
  tensors[2].shape = {96, 128};
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_THAT(error_of(folder),
              HasSubstr("'model.layers.0.self_attn.q_proj.weight' has the shape [96, 128]; the "
                        "hyper-parameters ask for [128, 96]"));
  tensors = hf_tensors(model);
  tensors.pop_back();
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_THAT(error_of(folder),
              AllOf(HasSubstr("'model.norm.weight' is missing"), Not(HasSubstr("truncated"))));
  tensors = hf_tensors(model);
  for (int i = 0; i < 7; ++i) tensors.push_back({"extra." + std::to_string(i), {1}, {1.0f}});
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_THAT(error_of(folder), AllOf(HasSubstr("holds 7 tensors"), HasSubstr("'extra.4'"),
                                      Not(HasSubstr("'extra.5'"))));
  tensors = hf_tensors(model);  // older files bring RoPE's frequencies along
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {1.0f}});
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_EQ(error_of(folder), "no error");
}

TEST(HfWeights, TiedModelsMayRepeatTheEmbedding) {
  const TinyModel model = small_model();
  const TemporaryFolder folder;
  write_hf(folder, model);
  std::vector<HfTensor> tensors = hf_tensors(model);
  tensors.push_back({"lm_head.weight", tensors[0].shape, tensors[0].values});
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_EQ(error_of(folder), "no error");
  tensors.back().values[17] += 1.0f;
  folder.write("model.safetensors", safetensors(tensors));
  EXPECT_THAT(error_of(folder), HasSubstr("'lm_head.weight' differs from the embedding"));
  TinyModel untied = model;
  untied.tied = false;
  folder.write("config.json", json_text(llama_config(untied)));
  folder.write("model.safetensors", safetensors(hf_tensors(model)));
  EXPECT_THAT(error_of(folder), HasSubstr("'lm_head.weight' is missing"));
}

TEST(HfWeights, RefusesValuesThatAreNotFinite) {
  const TinyModel model = small_model();
  const TemporaryFolder folder;
  write_hf(folder, model);
  std::vector<HfTensor> tensors = hf_tensors(model);
  HfTensor& tensor = tensors[7];
  for (std::size_t i = 0; i < 5; ++i)
    tensor.values[3 * i] = i % 2 == 0 ? std::nanf("") : std::numeric_limits<float>::infinity();
  folder.write("model.safetensors", safetensors(tensors));
  const auto source = open_weights(folder.path(), "auto");
  try {
    check_weights(*source);
    ADD_FAILURE() << "no error";
  } catch (const base::IoError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'" + tensor.name + "' holds values"),
                                    HasSubstr("not numbers: 5 of")));
  }
  // BF16 reaches further than FP16: 70144 is a number there.
  for (HfTensor& each : tensors) std::fill(each.values.begin(), each.values.end(), 70144.0f);
  folder.write("model.safetensors", safetensors(tensors, GgufTensorType::bf16));
  EXPECT_NO_THROW(check_weights(*open_weights(folder.path(), "auto")));
  folder.write("model.safetensors", safetensors(tensors, GgufTensorType::f16));
  EXPECT_THROW(check_weights(*open_weights(folder.path(), "auto")), base::IoError);
}

}  // namespace
}  // namespace dgap::engine
