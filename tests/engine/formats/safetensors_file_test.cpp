#include "engine/formats/safetensors_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/engine/testing/tiny_hf.hpp"

namespace dgap::engine {
namespace {

using testing::bytes_of;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TemporaryFile;

std::string error_of(const std::string& bytes, base::ExitCode code = base::ExitCode::io) {
  const TemporaryFile file(bytes, ".safetensors");
  try {
    const SafetensorsFile opened(file.path());
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    return error.what();
  }
  return "no error";
}
/// A file with this header and this many bytes of data.
std::string error_of_header(const std::string& header, std::size_t data,
                            base::ExitCode code = base::ExitCode::io) {
  return error_of(SafetensorsWriter::file(header, std::string(data, '\1')), code);
}

SafetensorsWriter two_tensors() {
  SafetensorsWriter writer;
  writer.tensor("a", "F32", {2, 3}, std::string(24, '\1'));
  writer.tensor("b", "BF16", {4}, std::string(8, '\2'));
  return writer;
}

TEST(Safetensors, ReadsTypesShapesAndBytes) {
  const TemporaryFile file(two_tensors().finish(), ".safetensors");
  const SafetensorsFile opened(file.path());
  ASSERT_EQ(opened.tensors().size(), 2u);
  EXPECT_EQ(opened.tensors()[0].name, "a");
  EXPECT_EQ(opened.tensors()[0].stored.type, GgufTensorType::f32);
  EXPECT_EQ(opened.tensors()[0].stored.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(opened.tensors()[1].stored.type, GgufTensorType::bf16);
  EXPECT_EQ(opened.tensors()[1].stored.data.size(), 8u);
  EXPECT_EQ(opened.tensors()[1].stored.data[7], std::byte{2});
  EXPECT_EQ(error_of_header(R"({"__metadata__": {"format": "pt"}})", 0), "no error");
}

TEST(Safetensors, ChecksTheLengthOfTheHeader) {
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 40})
    EXPECT_THAT(error_of(bytes_of(length) + "{}"),
                HasSubstr("declares a header of " + std::to_string(length)));
  EXPECT_THAT(error_of(bytes_of(std::uint64_t{100}) + "{}"),
              HasSubstr("needs at least 108 bytes, has 10"));
  EXPECT_THAT(error_of("1234"), HasSubstr("needs at least 8 bytes, has 4"));
  EXPECT_THAT(error_of_header("  ", 0), HasSubstr("does not begin with {"));
}

TEST(Safetensors, ChecksTheHeader) {
  EXPECT_THAT(error_of_header("{\"a\":", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4),
              HasSubstr("nested more than 3 deep"));
  const std::string entry = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(error_of_header("{" + entry + "," + entry + "}", 4), HasSubstr("twice"));
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
      HasSubstr("twice"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
              HasSubstr("'a'.x: is unknown"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("'a'.shape: expected integers"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4),
              HasSubstr("'a'.shape: expected integers"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4),
              HasSubstr("'a'.shape: is missing"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"a":1}})", 0), HasSubstr("object of texts"));
  EXPECT_THAT(error_of_header(R"({"a":7})", 0), HasSubstr("expected an object"));
}

TEST(Safetensors, RefusesOtherTypesByName) {
  for (const char* type : {"F8_E4M3", "I64", "BOOL", "f32", ""})
    EXPECT_THAT(error_of_header(std::string(R"({"a":{"dtype":")") + type +
                                    R"(","shape":[1],"data_offsets":[0,4]}})",
                                4, base::ExitCode::usage),
                ::testing::AllOf(HasSubstr("the tensor 'a' has type"), HasSubstr("F16 and BF16")));
}

TEST(Safetensors, SizeIsTypeTimesShape) {
  const auto header = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F16","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}}";
  };
  EXPECT_EQ(error_of_header(header("2,3", "0,12"), 12), "no error");
  EXPECT_THAT(error_of_header(header("2,3", "0,14"), 14),
              HasSubstr("span 14 bytes; type and shape need 12"));
  EXPECT_THAT(error_of_header(header("281474976710656,281474976710656", "0,12"), 12),
              HasSubstr("type and shape need 18446744073709551615"));
  EXPECT_THAT(error_of_header(header("6", "12,0"), 12), HasSubstr("begin <= end"));
  EXPECT_THAT(error_of_header(header("6", "0"), 12), HasSubstr("begin <= end"));
  EXPECT_THAT(error_of_header(header("1,1,1,1,1,1,1,1,1", "0,2"), 2), HasSubstr("at most 8"));
}

TEST(Safetensors, EveryByteBelongsToOneTensor) {
  SafetensorsWriter overlap, hole;
  overlap.tensor("a", "F32", {2}, std::string(8, '\1'));
  overlap.entry("b", "F32", {1}, 4, 8);
  EXPECT_THAT(error_of(overlap.finish()),
              HasSubstr("'b' begins at byte 4 of the data; expected 8 (it overlaps"));
  hole.tensor("a", "F32", {1}, std::string(12, '\1'));
  EXPECT_THAT(error_of(hole.finish()), HasSubstr("span 12 bytes"));
  SafetensorsWriter gap;
  gap.entry("a", "F32", {1}, 0, 4);
  gap.entry("b", "F32", {1}, 8, 12);
  EXPECT_THAT(error_of(gap.finish() + std::string(12, '\1')),
              HasSubstr("there is a hole before it"));
  const std::string whole = two_tensors().finish();
  EXPECT_THAT(error_of(whole.substr(0, whole.size() - 1)),
              HasSubstr("needs " + std::to_string(whole.size()) + " bytes, has " +
                        std::to_string(whole.size() - 1)));
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("has 1 bytes after the last tensor"));
}

TEST(Safetensors, DamageNeverCrashes) {
  const std::string whole = two_tensors().finish();
  base::Random random(3, "damage");
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int n = 0; n < 2; ++n)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    const TemporaryFile file(bytes.substr(0, 1 + random.below(bytes.size())), ".safetensors");
    try {
      const SafetensorsFile opened(file.path());
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
}

}  // namespace
}  // namespace dgap::engine
