#include <chrono>

#include "helpers.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(HostileYaml, DeepNestingIsAnError) {
  EXPECT_THAT(refusal(repeated("[", 10000)), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(refusal(repeated("{a: ", 10000)), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(refusal(repeated("- ", 10000)), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(refusal(repeated("? ", 10000)), StartsWith("c.yaml:1: "));
  std::string blocks;
  for (int i = 0; i < 1000; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(refusal(blocks), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(refusal(repeated("[", 1 << 20)), HasSubstr("nested deeper than 32"));
  EXPECT_EQ(parse_yaml(repeated("[", 32) + repeated("]", 32), "x").kind, YamlNode::Kind::list);
  EXPECT_THROW(parse_yaml(repeated("[", 33) + repeated("]", 33), "x"), base::UsageError);
}

TEST(HostileYaml, AliasBombsStopEarly) {
  const auto start = std::chrono::steady_clock::now();
  std::string bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string below = "*l" + std::to_string(i - 1);
    bomb += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [" +
            repeated(below + ", ", 8) + below + "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("aliases expanded"));

  std::string wide =
      "a: &a " + std::string(100'000, 'x') + "\nb: [" + repeated("*a, ", 10'000) + "]\n";
  EXPECT_THAT(refusal(wide), HasSubstr("aliases expanded"));

  std::string high = "l0: &l0 [x]\n";
  for (int i = 1; i < 64; ++i) {
    high += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [*l" + std::to_string(i - 1) +
            "]\n";
  }
  EXPECT_THAT(refusal(high), HasSubstr("nested deeper than 32"));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 1.0);
}

TEST(HostileYaml, AliasesThatContainThemselves) {
  EXPECT_THAT(refusal("a: &x [*x]\n"),
              StartsWith("c.yaml:1: a: an alias refers to something that contains it"));
  EXPECT_THAT(refusal("&x a: *x\n"), StartsWith("c.yaml:1: "));
  EXPECT_THAT(refusal("a: *nobody\n"), StartsWith("c.yaml:1: is not valid YAML"));
}

TEST(HostileYaml, AliasesThatEndAreFine) {
  const Config c =
      parsed(kMinimal + "detector: &net {hidden: &h [16, 8]}\ncorrector: {hidden: *h}\n");
  EXPECT_EQ(c.corrector.hidden, (std::vector<int>{16, 8}));
}

TEST(HostileYaml, MergeKeysAreRejectedByName) {
  EXPECT_THAT(refusal(kMinimal + "detector: &d {hidden: [8]}\ncorrector:\n  <<: *d\n"),
              StartsWith("c.yaml:6: corrector: merge keys (<<) are not supported"));
}

TEST(HostileYaml, BytesThatAreNotText) {
  EXPECT_THAT(refusal(kMinimal + "run: {name: \xff}\n"),
              StartsWith("c.yaml:4: invalid UTF-8 at byte "));
  EXPECT_THAT(refusal(kMinimal + std::string("run\0: {}\n", 9)),
              StartsWith("c.yaml:4: control character 0 at byte"));
  EXPECT_THAT(refusal(std::string("\xfe\xff\0a", 4)), HasSubstr("invalid UTF-8 at byte 0"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1 MiB"));
}

TEST(HostileYaml, TabsAreNamed) {
  EXPECT_THAT(refusal(kMinimal + "window:\n\tcap: 5\n"),
              StartsWith("c.yaml:5: a tab is used as indentation"));
  EXPECT_THAT(refusal(kMinimal + "window:\n  \tcap: 5\n"), StartsWith("c.yaml:5: a tab"));
  EXPECT_THAT(refusal("precisions:\n-\tname: x\n"), StartsWith("c.yaml:2: a tab"));
  EXPECT_EQ(parsed(kMinimal + "run: {seed:\t5}\n\t\n\t# a comment\n").run.seed,
            5u);  // no indentation
}

TEST(HostileYaml, ByteOrderMarkAndLineEndsChangeNothing) {
  const std::string text = kMinimal + "run:\n  seed: 5\n";
  std::string windows;
  for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(parsed("\xef\xbb\xbf" + text), parsed(text));
  EXPECT_EQ(parsed("\xef\xbb\xbf" + windows), parsed(text));
  EXPECT_THAT(refusal("\xef\xbb\xbf" + windows + "oops: 1\r\n"),
              StartsWith("c.yaml:6: oops: unknown key"));
}

TEST(HostileYaml, OneDocumentOnly) {
  EXPECT_THAT(refusal(kMinimal + "---\nrun: {}\n"), HasSubstr("a second YAML document begins"));
  EXPECT_EQ(parsed("---\n" + kMinimal + "...\n"), parsed(kMinimal));
}

TEST(HostileYaml, OddKeysAndTags) {
  EXPECT_THAT(refusal("? [a]\n: 1\n"), HasSubstr("a key must be text"));
  EXPECT_THAT(refusal("? {a: 1}\n: 1\n"), HasSubstr("a key must be text"));
  EXPECT_THAT(refusal("a: [1, 2\nb: 3\n"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(refusal("~: 1\n"), HasSubstr("an empty key"));
  EXPECT_THAT(refusal("a: &k b\n*k : 1\n"), HasSubstr("a key must be written out"));
  EXPECT_THAT(refusal(kMinimal + "run: !!python/object {}\n"),
              HasSubstr("tag \"tag:yaml.org,2002:python/object\""));
  EXPECT_THAT(refusal(kMinimal + "window: {cap: !!int 5}\n"), HasSubstr("is not supported"));
  EXPECT_EQ(parsed(kMinimal + "run: {name: !!str 5}\n").run.name, "5");
  EXPECT_THAT(refusal(kMinimal + "run: {name: a\n"), StartsWith("c.yaml:"));
  EXPECT_THAT(refusal("a: b: c\n"), StartsWith("c.yaml:1: is not valid YAML"));
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(refusal(many), HasSubstr("a mapping of more than 1000 keys"));
}

TEST(HostileYaml, LongValuesAreShortenedInMessages) {
  const std::string message =
      refusal(kMinimal + "window: {cap: " + std::string(10'000, 'x') + "}\n");
  EXPECT_LT(message.size(), 300u);
}

}  // namespace
}  // namespace dgap::schemas
