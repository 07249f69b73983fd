#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/fixture.hpp"

/// Bundles that earlier versions wrote (tests/runtime/fixtures, make_fixtures.cpp) are served for
/// ever, with the verdicts and bits of then.
namespace dgap {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(DGAP_SOURCE_DIR) / "tests/runtime/fixtures";

std::set<std::string> names() {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder))
    if (entry.is_directory()) names.insert(entry.path().filename());
  return names;
}

class OlderBundle : public ::testing::TestWithParam<std::string> {};

TEST_P(OlderBundle, GivesTheVerdictsAndBitsOfThen) {
  const test::Fixture then = test::read_fixture(kFolder / (GetParam() + ".json"));
  const test::Fixture now = test::serve(kFolder / GetParam(), then);
  ASSERT_EQ(now.rows.size(), then.rows.size());
  for (std::size_t r = 0; r < then.rows.size(); ++r) {
    const test::ServedRow &a = now.rows[r], &b = then.rows[r];
    EXPECT_EQ(a.verdict, b.verdict) << r;
    EXPECT_EQ(a.window, b.window) << r;
    EXPECT_EQ(a.risk, b.risk) << r;
    EXPECT_EQ(a.restored, b.restored) << r;
  }
  EXPECT_EQ(now.tau, then.tau);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OlderBundle, ::testing::ValuesIn(names()), [](const auto& name) {
  std::string text = name.param;
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
});

/// None was lost, and they show what there is to show.
TEST(OlderBundles, CoverEveryFormAndVerdict) {
  const std::set<std::string> found = names();
  std::set<int> verdicts, dtypes;
  for (const char* form : {"linear", "mlp", "transformer", "window", "context", "tokens", "hidden",
                           "escalate", "adaptive", "online"}) {
    const std::string name = std::string("bundle-1.0-") + form;
    ASSERT_TRUE(found.contains(name)) << name;
    std::size_t corrected = 0;
    for (const test::ServedRow& row : test::read_fixture(kFolder / (name + ".json")).rows) {
      verdicts.insert(row.verdict), dtypes.insert(row.dtype);
      corrected += row.restored.size();
    }
    EXPECT_GT(corrected, 0u) << name;
  }
  EXPECT_THAT(verdicts, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(dtypes, ::testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace dgap
