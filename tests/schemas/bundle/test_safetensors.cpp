#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "base/error.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;

std::string with_header(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header) + std::string(data_bytes, '\0');
}

std::string failure(std::string_view bytes) {
  try {
    decode_safetensors(bytes, "w.safetensors");
  } catch (const base::IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("w.safetensors"));
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, RoundTrip) {
  const Tensors tensors = {
      {"b", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"a", {{}, {7.5f}}}, {"empty", {{0, 4}, {}}}};
  const std::string bytes = encode_safetensors(tensors);
  EXPECT_EQ(bytes, encode_safetensors(tensors));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ((8 + length) % 8, 0u);
  EXPECT_EQ(bytes.size(), 8 + length + 7 * sizeof(float));
  const Tensors read = decode_safetensors(bytes, "w");
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.at("b").data, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.at("a").data, std::vector<float>{7.5f});
  EXPECT_TRUE(decode_safetensors(encode_safetensors({}), "w").empty());
}

TEST(Safetensors, AcceptsMetadata) {
  EXPECT_EQ(decode_safetensors(with_header(R"({"__metadata__":{"format":"pt"}})", 0), "w").size(),
            0u);
  EXPECT_THAT(failure(with_header(R"({"__metadata__":{"format":1}})", 0)),
              HasSubstr("__metadata__"));
}

TEST(Safetensors, RefusesEveryOtherLayout) {
  const auto one = [](std::string_view entry, std::size_t bytes) {
    return failure(with_header("{\"t\":" + std::string(entry) + "}", bytes));
  };
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "no error");
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7),
              HasSubstr("needs 8 bytes of data, has 7"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9), HasSubstr("has 9"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", 12), HasSubstr("holes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8),
              HasSubstr("begin <= end"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8), HasSubstr("needs 12"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), HasSubstr("2^48"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", 8),
              HasSubstr("integers"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", 8),
              HasSubstr("data_offsets"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})", 4),
              HasSubstr("at most 8"));
  EXPECT_THAT(
      one(R"({"dtype":"F32","shape":[281474976710656,281474976710656],"data_offsets":[0,0]})", 0),
      HasSubstr("more elements"));
  EXPECT_THAT(one(R"({"dtype":"BF16","shape":[2],"data_offsets":[0,4]})", 4),
              HasSubstr("\"BF16\""));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})", 8),
              HasSubstr("unknown"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2]})", 8), HasSubstr("data_offsets: is missing"));
  EXPECT_THAT(one("7", 0), HasSubstr("expected an object"));
  EXPECT_THAT(failure(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                  12)),
              HasSubstr("without holes"));  // they overlap
  EXPECT_THAT(failure(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                  R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  8)),
              HasSubstr("twice"));
}

TEST(Safetensors, RefusesWrongHeaders) {
  EXPECT_THAT(failure(""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(failure("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(failure(std::string(8, '\xff')),
              HasSubstr("declares a header of 18446744073709551615"));
  EXPECT_THAT(failure(with_header("", 0)), HasSubstr("begin with"));
  EXPECT_THAT(failure(with_header("[]", 0)), HasSubstr("begin with"));
  EXPECT_THAT(failure(with_header("{", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure(with_header("{} x", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure(with_header("{\"a\":[[[[]]]]}", 0)), HasSubstr("nested"));
  const std::clock_t start = std::clock();
  std::string deep = "{\"a\":";
  deep.append(4'000'000, '[');
  EXPECT_THAT(failure(with_header(deep, 0)), HasSubstr("nested"));
  EXPECT_THAT(failure(with_header(std::string(5 << 20, ' '), 0)), HasSubstr("at most 4194304"));
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace dgap::schemas
