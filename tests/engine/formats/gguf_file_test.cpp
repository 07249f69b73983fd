#include "engine/formats/gguf_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::engine {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::gguf_string;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFile;

std::string error_of(std::string_view bytes, base::ExitCode code) {
  const TemporaryFile file(bytes);
  try {
    const GgufFile opened(file.path());
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    return error.what();
  }
  ADD_FAILURE() << "opened without an error";
  return {};
}
std::string damage_of(std::string_view bytes) { return error_of(bytes, base::ExitCode::io); }
std::string damage_of(const GgufWriter& writer) { return damage_of(writer.finish()); }
std::string refusal_of(std::string_view bytes) { return error_of(bytes, base::ExitCode::usage); }

const std::vector<float> kRow{1.0f, -2.0f, 0.5f, 4.0f};

TEST(GgufFile, ReadsMetadataAndTensors) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufWriter writer;
    writer.version = version;
    writer.string("general.name", "a model");
    writer.u32("u32", 7);
    writer.value("i8", GgufValueType::int8, bytes_of(std::int8_t{-3}));
    writer.value("u64", GgufValueType::uint64, bytes_of(std::uint64_t{1} << 40));
    writer.value("f64", GgufValueType::float64, bytes_of(0.25));
    writer.f32("f32", 1.5f);
    writer.boolean("yes", true);
    writer.strings("words", {"", "two", "\xc3\xa9"});
    writer.integers("numbers", {-1, 2});
    writer.tensor("first", {4}, GgufTensorType::f32, kRow);
    writer.tensor("second", {2, 2}, GgufTensorType::f16, kRow);
    const TemporaryFile path(writer.finish());
    const GgufFile file(path.path());
    EXPECT_EQ(file.string("general.name"), "a model");
    EXPECT_EQ(file.integer("u32"), 7);
    EXPECT_EQ(file.integer("i8"), -3);
    EXPECT_EQ(file.integer("u64"), std::int64_t{1} << 40);
    EXPECT_EQ(file.real("f64"), 0.25);
    EXPECT_EQ(file.real("f32"), 1.5);
    EXPECT_TRUE(file.boolean("yes"));
    EXPECT_THAT(file.strings("words"), ElementsAre("", "two", "\xc3\xa9"));
    EXPECT_THAT(file.integers("numbers"), ElementsAre(-1, 2));
    EXPECT_EQ(file.describe("words"), "array of 3 string");
    EXPECT_EQ(file.keys().size(), 9u);

    ASSERT_EQ(file.tensors().size(), 2u);
    const GgufFile::Tensor* second = file.find_tensor("second");
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->type, GgufTensorType::f16);
    EXPECT_THAT(second->shape, ElementsAre(2, 2, 1, 1));
    EXPECT_EQ(second->row_bytes(), 4u);
    const GgufFile::Tensor* first = file.find_tensor("first");
    ASSERT_EQ(first->data.size(), 16u);
    EXPECT_EQ(std::memcmp(first->data.data(), kRow.data(), 16), 0);
    EXPECT_EQ(file.find_tensor("third"), nullptr);
  }
}

TEST(GgufFile, AccessorsNameKeyAndTypes) {
  GgufWriter writer;
  writer.u32("count", 7);
  writer.value("large", GgufValueType::uint64, bytes_of(~std::uint64_t{0}));
  writer.value("wide", GgufValueType::array,
               GgufWriter::array_head(GgufValueType::int64, 1) + bytes_of(std::int64_t{1} << 31));
  const TemporaryFile path(writer.finish());
  const GgufFile file(path.path());
  const auto message = [](const auto& access) -> std::string {
    try {
      access();
    } catch (const base::IoError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string missing = message([&] { (void)file.string("general.name"); });
  EXPECT_THAT(missing, HasSubstr("'general.name' is missing"));
  EXPECT_THAT(missing, Not(HasSubstr("truncated")));
  EXPECT_THAT(message([&] { (void)file.string("count"); }),
              HasSubstr("'count' is 7; expected is a string"));
  EXPECT_THAT(message([&] { (void)file.real("count"); }), HasSubstr("expected is a real number"));
  EXPECT_THAT(message([&] { (void)file.boolean("count"); }), HasSubstr("expected is a boolean"));
  EXPECT_THAT(message([&] { (void)file.strings("count"); }),
              HasSubstr("expected is an array of strings"));
  EXPECT_THAT(message([&] { (void)file.strings("wide"); }), HasSubstr("array of 1 int64"));
  EXPECT_THAT(message([&] { (void)file.integer("large"); }), HasSubstr("18446744073709551615"));
  EXPECT_THAT(message([&] { (void)file.integers("wide"); }),
              HasSubstr("does not fit into 32 bits"));
}

TEST(GgufFile, HonoursAlignment) {
  GgufWriter writer;
  writer.alignment = 128;
  writer.u32("general.alignment", 128);
  writer.tensor("first", {4}, GgufTensorType::f32, kRow);
  writer.tensor("second", {4}, GgufTensorType::f32, kRow);
  const TemporaryFile path(writer.finish());
  const GgufFile file(path.path());
  const auto* second = file.find_tensor("second");
  EXPECT_EQ((second->data.data() - file.bytes().data()) % 128, 0);
  EXPECT_EQ(std::memcmp(second->data.data(), kRow.data(), 16), 0);

  for (const std::uint32_t wrong : {0u, 48u, 1u << 31}) {
    GgufWriter odd;
    odd.u32("general.alignment", wrong);
    EXPECT_THAT(damage_of(odd), HasSubstr("general.alignment is " + std::to_string(wrong)));
  }
}

TEST(GgufFile, RefusesOtherFiles) {
  EXPECT_THAT(damage_of(""), HasSubstr("not a GGUF file"));
  EXPECT_THAT(damage_of("GGML and more"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(damage_of("GG"), HasSubstr("needs 4 bytes, has 2"));
  EXPECT_THAT(damage_of("GGUF"), HasSubstr("needs 8 bytes, has 4"));
  GgufWriter writer;
  writer.version = 1;
  EXPECT_THAT(refusal_of(writer.finish()), HasSubstr("version 1, not supported"));
  writer.version = 4;
  EXPECT_THAT(refusal_of(writer.finish()), HasSubstr("version 4; versions 2 and 3"));
  writer.version = 0x03000000u;
  EXPECT_THAT(refusal_of(writer.finish()), HasSubstr("big-endian file, not supported"));
  EXPECT_THROW(GgufFile("/nonexistent/model.gguf"), base::IoError);
}

TEST(GgufFile, RefusesSplitModels) {
  GgufWriter writer;
  writer.value("split.count", GgufValueType::uint16, bytes_of(std::uint16_t{3}));
  EXPECT_THAT(refusal_of(writer.finish()), HasSubstr("one of 3 parts of a split model"));
}

TEST(GgufFile, SaysHowMuchIsMissing) {
  GgufWriter writer;
  writer.string("general.name", "a model");
  writer.tensor("only", {4}, GgufTensorType::f32, kRow);
  const std::string whole = writer.finish();
  const std::string size = std::to_string(whole.size()), less = std::to_string(whole.size() - 1);
  const std::string message = damage_of(whole.substr(0, whole.size() - 1));
  EXPECT_THAT(message, HasSubstr("needs " + size + " bytes, has " + less));
  EXPECT_THAT(message, HasSubstr("'only'"));
}

TEST(GgufFile, RefusesCountsBeyondTheFile) {
  const std::string head = "GGUF" + bytes_of(std::uint32_t{3});
  for (const std::uint64_t count : {std::uint64_t{1} << 20, ~std::uint64_t{0}}) {
    const std::string zero = bytes_of(std::uint64_t{0});
    EXPECT_THAT(damage_of(head + zero + bytes_of(count)), HasSubstr("metadata values"));
    EXPECT_THAT(damage_of(head + bytes_of(count) + zero), HasSubstr("tensors"));
    GgufWriter array;
    array.value("list", GgufValueType::array, GgufWriter::array_head(GgufValueType::int32, count));
    EXPECT_THAT(damage_of(array), HasSubstr("elements of 'list'"));
    GgufWriter strings;
    strings.value("list", GgufValueType::array,
                  GgufWriter::array_head(GgufValueType::string, count));
    EXPECT_THAT(damage_of(strings), HasSubstr("elements of 'list'"));
    GgufWriter text;
    text.value("text", GgufValueType::string, bytes_of(count));
    EXPECT_THAT(damage_of(text), HasSubstr("truncated"));
  }
}

TEST(GgufFile, RefusesBadValues) {
  GgufWriter twice;
  twice.u32("key", 1);
  twice.u32("key", 1);
  EXPECT_THAT(damage_of(twice), HasSubstr("'key' occurs twice"));
  GgufWriter type;
  type.value("key", GgufValueType{13}, "xxxxxxxx");
  EXPECT_THAT(damage_of(type), HasSubstr("value type 13"));
  GgufWriter nested;
  nested.value("key", GgufValueType::array,
               GgufWriter::array_head(GgufValueType::array, 1) +
                   GgufWriter::array_head(GgufValueType::uint8, 0));
  EXPECT_THAT(damage_of(nested), HasSubstr("value type 9 (array)"));
  GgufWriter boolean;
  boolean.value("key", GgufValueType::boolean, "\x02");
  EXPECT_THAT(damage_of(boolean), HasSubstr("neither 0 nor 1"));
}

TEST(GgufFile, RefusesBadTensors) {
  const auto one = [](const std::vector<std::uint64_t>& shape, std::uint32_t type) {
    GgufWriter writer;
    writer.tensor("t", shape, type, std::string(64, '\0'));
    return writer.finish();
  };
  EXPECT_THAT(damage_of(one({}, 0)), HasSubstr("'t' has 0 dimensions"));
  EXPECT_THAT(damage_of(one({1, 1, 1, 1, 1}, 0)), HasSubstr("'t' has 5 dimensions"));
  EXPECT_THAT(damage_of(one({0, 4}, 0)), HasSubstr("a dimension of 0"));
  EXPECT_THAT(damage_of(one({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0)),
              HasSubstr("too large"));
  EXPECT_THAT(damage_of(one({~std::uint64_t{0}}, 0)), HasSubstr("too large"));
  EXPECT_THAT(damage_of(one({(std::uint64_t{1} << 63) - 1}, 0)),
              HasSubstr("needs 18446744073709551615"));
  EXPECT_THAT(damage_of(one({48}, 8)), HasSubstr("not a multiple of the 32 of type Q8_0"));
  EXPECT_THAT(refusal_of(one({32}, 22)), HasSubstr("22 (IQ2_S)"));
  EXPECT_THAT(refusal_of(one({32}, 4711)), HasSubstr("4711 (unknown)"));

  GgufWriter twice;
  twice.tensor("t", {4}, GgufTensorType::f32, kRow);
  twice.tensor("t", {4}, GgufTensorType::f32, kRow);
  EXPECT_THAT(damage_of(twice), HasSubstr("'t' occurs twice"));
  GgufWriter overlap;
  overlap.tensor("a", {16}, 0, std::string(64, '\0'));
  overlap.tensor_at("b", {4}, 0, 32);
  EXPECT_THAT(damage_of(overlap), HasSubstr("'a' and 'b' overlap"));
  GgufWriter misaligned;
  misaligned.tensor("a", {16}, 0, std::string(64, '\0'));
  misaligned.tensor_at("b", {4}, 0, 68);
  EXPECT_THAT(damage_of(misaligned), HasSubstr("not a multiple of the alignment 32"));
  GgufWriter beyond;
  beyond.tensor("a", {16}, 0, std::string(64, '\0'));
  beyond.tensor_at("b", {4}, 0, ~std::uint64_t{31});
  EXPECT_THAT(damage_of(beyond), HasSubstr("needs 18446744073709551615 bytes"));
}

TEST(GgufFile, NamesInMessagesAreSafeToPrint) {
  EXPECT_EQ(in_quotes("plain.name"), "'plain.name'");
  EXPECT_EQ(in_quotes("\x1b[31m\xff"), "'?[31m?'");
  EXPECT_EQ(in_quotes("\xc4\xa0the"), "'\xc4\xa0the'");
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 80u);
}

}  // namespace
}  // namespace dgap::engine
