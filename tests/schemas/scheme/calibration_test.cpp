#include "schemas/scheme/calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/sha256.hpp"
#include "tests/testing/message_of.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::schemas {
namespace {

using dgap::testing::message_of;
using ::testing::HasSubstr;

Calibration small() {
  Calibration made;
  made.model_sha256 = std::string(64, 'a');
  made.tokens = 12;
  made.layers.resize(2);
  made.layers[0].key = {
      {-1.0f, -0.1f}, {1.0f, 0.3f}, {-0.5f, 0.0f, 0.25f, 1.0f / 3}, {-1, 0, 0, 1}};
  made.layers[1].value = {{}, {}, {-1, 0, 1, 1}, {-1, 0, 1, 1}};
  return made;
}

class CalibrationFile : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text, const std::string& sha256 = "") {
    base::write_file_atomically(folder_ / "c.json", text);
    return message_of([&] { read_calibration(folder_ / "c.json", sha256); });
  }
  std::string with(const std::string& from, const std::string& to) {
    std::string text = encode_calibration(small());
    text.replace(text.find(from), from.size(), to);
    return error_of(text);
  }
  dgap::testing::TemporaryFolder folder_;
};

TEST_F(CalibrationFile, Survives) {
  const std::string bytes = encode_calibration(small());
  base::write_file_atomically(folder_ / "c.json", bytes);
  EXPECT_EQ(read_calibration(folder_ / "c.json", base::sha256_hex(bytes)), small());
  EXPECT_EQ(read_calibration(folder_ / "c.json", ""), small());
}

TEST_F(CalibrationFile, RefusesWhatIsNone) {
  EXPECT_THAT(error_of("{}"), HasSubstr("format"));
  EXPECT_THAT(error_of(encode_calibration(small()), std::string(64, '0')),
              HasSubstr("is not the calibration that the scheme was used with"));
  EXPECT_THAT(with("\"version\":1", "\"version\":2"), HasSubstr("reads version 1"));
  EXPECT_THAT(with("\"reads\":[-1.0,0.0,0.0,1.0]", "\"reads\":[0]"),
              HasSubstr("layers.0.key.reads: expected as many numbers as levels"));
  EXPECT_THAT(with("\"upper\":[1.0", "\"upper\":[-9.0"), HasSubstr("upper: lies below lower"));
  EXPECT_THAT(with("\"levels\":[-0.5", "\"levels\":[null"),
              HasSubstr("expected a list of numbers"));
  EXPECT_THAT(with("\"levels\":[-0.5", "\"levels\":[1e300"), HasSubstr("list of numbers"));
  EXPECT_THAT(with("\"levels\":[-0.5", "\"levels\":[5"), HasSubstr("expected ascending numbers"));
  EXPECT_THAT(with("\"tokens\":12", "\"tokens\":12,\"more\":1"), HasSubstr("more"));
}

TEST(NeedsCalibration, IsOfKvquantAlone) {
  EXPECT_TRUE(needs_calibration(preset("kvquant-nuq3")));
  EXPECT_FALSE(needs_calibration(preset("K2V2")));
  Scheme scheme = preset("K2V2");
  scheme.calibration = "file.json";
  EXPECT_THAT(message_of([&] { validate(scheme); }), HasSubstr("belongs to quantizer kvquant"));
  scheme.calibration.clear();
  scheme.overrides = {{.layers = {1}, .value = preset("kvquant-nuq3").value}};
  EXPECT_TRUE(needs_calibration(scheme));
  validate(scheme);
  scheme.overrides[0].heads = {0};
  EXPECT_THAT(message_of([&] { validate(scheme); }), HasSubstr("span the heads of a layer"));
}

}  // namespace
}  // namespace dgap::schemas
