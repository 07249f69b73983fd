#include "app/request.hpp"
#include "helpers.hpp"

namespace dgap::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Request parsed(const std::vector<std::string>& words) {
  const Arguments arguments(words);
  return parse_command_line(arguments.argc(), arguments.argv());
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(Request, StageVerbs) {
  for (const char* verb :
       {"collect", "calibrate", "train", "threshold", "export", "evaluate", "report", "run"}) {
    const Request r = parsed({verb, "c.yaml"});
    EXPECT_EQ(r.verb, verb);
    EXPECT_EQ(r.target, "c.yaml");
    EXPECT_FALSE(r.json || r.dry_run || r.help);
  }
  const Request r =
      parsed({"run", "--set", "a.b=1", "c.yaml", "--set=d=[1, 2]", "--json", "--dry-run"});
  EXPECT_EQ(r.target, "c.yaml");
  EXPECT_THAT(r.overrides, ElementsAre("a.b=1", "d=[1, 2]"));
  EXPECT_TRUE(r.json && r.dry_run);
  EXPECT_TRUE(parsed({"--json", "run", "c.yaml"}).json);
}

TEST(Request, OtherVerbs) {
  EXPECT_EQ(parsed({"inspect", "x"}).target, "x");
  EXPECT_EQ(parsed({"verify", "x", "--json"}).verb, "verify");
  EXPECT_EQ(parsed({"doctor"}).target, "");
  EXPECT_EQ(parsed({"doctor", "--path", "/tmp"}).target, "/tmp");
  EXPECT_EQ(parsed({"--version"}).verb, "version");
}

TEST(Request, Help) {
  EXPECT_THAT(parsed({"--help"}).help.value(), HasSubstr("train-adapters"));
  EXPECT_THAT(parsed({"run", "--help"}).help.value(), HasSubstr("KEY.PATH=VALUE"));
  EXPECT_TRUE(parsed({"sweep", "--help"}).help.has_value());
}

TEST(Request, UsageErrors) {
  EXPECT_THAT(refusal({}), HasSubstr("a verb is missing"));
  EXPECT_THAT(refusal({"colect", "c.yaml"}),
              HasSubstr("unknown verb 'colect'; did you mean collect?"));
  EXPECT_THAT(refusal({"xyzzy"}), HasSubstr("verbs are allocate, collect"));
  EXPECT_THAT(refusal({"run"}), HasSubstr("CONFIG is required"));
  EXPECT_THAT(refusal({"run", "a", "b"}), HasSubstr("b"));
  EXPECT_THAT(refusal({"run", "a", "--bogus"}), HasSubstr("--bogus"));
  EXPECT_THAT(refusal({"run", "a", "--set"}), HasSubstr("--set"));
  EXPECT_THAT(refusal({"doctor", "--dry-run"}), HasSubstr("--dry-run"));
}

TEST(Request, VerbsToCome) {
  EXPECT_THROW(parsed({"sweep", "c.yaml"}), base::FailedError);
  EXPECT_THROW(parsed({"train-adapters", "c.yaml", "--set", "a=1"}), base::FailedError);
  EXPECT_THROW(parsed({"sweep", "plan", "c.yaml"}), base::FailedError);
}

}  // namespace
}  // namespace dgap::app
