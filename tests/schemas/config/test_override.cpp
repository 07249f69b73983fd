#include "helpers.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Override, ReplacesAndAdds) {
  const Config c = parsed(
      kMinimal + "window: {cap: 8}\n",
      {"window.cap=16", "window.alpha=0.5", "run.name=other", "corpus.context_lengths=[64, 128]",
       "precisions=[K1V1, {name: x, preset: K2V2}]", "corpus.sites_per_book.test=9"});
  EXPECT_EQ(c.window.cap, 16);
  EXPECT_EQ(c.window.alpha, 0.5);
  EXPECT_EQ(c.run.name, "other");
  EXPECT_EQ(c.corpus.context_lengths, (std::vector<int>{64, 128}));
  EXPECT_EQ(c.precisions.size(), 2u);
  EXPECT_EQ(c.precisions[1].name, "x");
  EXPECT_EQ(c.corpus.sites_per_book, (SitesConfig{4, 4, 9}));
}

TEST(Override, TheLastOneWins) {
  EXPECT_EQ(parsed(kMinimal, {"run.seed=3", "run.seed=4"}).run.seed, 4u);
}

TEST(Override, ItemsByIndex) {
  const Config c =
      parsed(kMinimal, {"precisions.0.residual_window=8", "precisions.0.key.group_size=32"});
  EXPECT_EQ(c.precisions[0].name, "K4V4");
  EXPECT_EQ(c.precisions[0].residual_window, 8);
  EXPECT_EQ(c.precisions[0].key.group_size, 32);
  EXPECT_EQ(c.precisions[0].family, "custom");
  EXPECT_EQ(parsed(kMinimal, {"precisions.0=K2V2"}).precisions[0], preset("K2V2"));
  EXPECT_EQ(
      parsed(kMinimal + "detector: {hidden: [4, 5]}\n", {"detector.hidden.1=6"}).detector.hidden,
      (std::vector<int>{4, 6}));
}

TEST(Override, CanGiveWhatTheFileLacks) {
  const Config c = parsed("", {"model.path=m.gguf", "corpus.path=books", "precisions=[K4V4]"});
  EXPECT_EQ(c, parsed(kMinimal));
}

TEST(Override, ErrorsNameTheOverride) {
  const auto one = [](const std::string& text) { return refusal(kMinimal, {text}); };
  EXPECT_THAT(one("window.alhpa=1"),
              StartsWith("--set window.alhpa=1: window.alhpa: unknown key; did you mean alpha?"));
  EXPECT_THAT(one("windw.alpha=1"),
              StartsWith("--set windw.alpha=1: windw: unknown key; did you mean window?"));
  EXPECT_EQ(one("window.cap=0"), "--set window.cap=0: window.cap: must be in [2, 100000], got 0");
  EXPECT_THAT(one("window.cap="), HasSubstr("window.cap: expected an integer, got nothing"));
  EXPECT_EQ(one("window.cap"), "--set window.cap: expected key.path=value");
  EXPECT_EQ(one("=5"), "--set =5: expected key.path=value");
  EXPECT_THAT(one("window..cap=5"), HasSubstr("the key path has an empty part"));
  EXPECT_THAT(one("precisions.1=K1V1"), HasSubstr("the list has 1 items; the first is number 0"));
  EXPECT_THAT(one("precisions.x=K1V1"), HasSubstr("expected the index of a list item, got \"x\""));
  EXPECT_THAT(one("precisions.-1=K1V1"), HasSubstr("expected the index"));
  EXPECT_THAT(one("model.path.x=1"),
              HasSubstr("model.path.x: is inside \"m.gguf\", which has no keys"));
  EXPECT_THAT(one("window.cap=[1"), StartsWith("--set window.cap=[1: is not valid YAML"));
  EXPECT_THAT(one("sweep.x=1"), HasSubstr("not built in this version"));
  std::string deep = "a";
  for (int i = 0; i < 100; ++i) deep += ".a";
  EXPECT_THAT(one(deep + "=1"), HasSubstr("the key path is too deep"));
}

}  // namespace
}  // namespace dgap::schemas
