#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/bundle.hpp"
#include "tests/runtime/toy_bundle.hpp"

/// Bundles that were damaged, or made to do harm.
namespace dgap::schemas {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSeconds = 10;
#else
constexpr int kSeconds = 1;
#endif

class HostileBundle : public ::testing::Test {
 protected:
  HostileBundle() { test::write_toy_bundle(place(), test::toy_bundle(40, 4)); }

  fs::path place() const { return folder_.path() / "bundle"; }
  std::string bytes(const char* name) const { return base::read_file(place() / name); }
  void put(const char* name, std::string_view contents) const {
    std::ofstream(place() / name, std::ios::binary) << contents;
  }

  /// What reading says; every answer comes within kSeconds of this process's time.
  std::string failure(VerifyMode mode = VerifyMode::full) const {
    const std::clock_t start = std::clock();
    std::string message = "no error";
    try {
      read_bundle(place(), mode);
    } catch (const base::IoError& error) {
      message = error.what();
    }
    EXPECT_LT(std::clock() - start, kSeconds * CLOCKS_PER_SEC) << message;
    return message;
  }

  /// A changed manifest whose hash in SHA256SUMS is right again.
  void put_manifest(const std::string& text) const {
    std::string sums = bytes("SHA256SUMS");
    sums.replace(0, 64, base::sha256_hex(text));
    put("SHA256SUMS", sums);
    put("manifest.json", text);
  }
  template <class Change>
  std::string failure_after(const Change& change) const {
    json manifest = json::parse(bytes("manifest.json"));
    change(manifest);
    put_manifest(manifest.dump());
    return failure();
  }

  test::TemporaryFolder folder_;
};

TEST_F(HostileBundle, EveryFlippedBitIsNoticed) {
  base::Random random(1);
  for (const char* name :
       {"manifest.json", "weights.safetensors", "calibration.json", "README.md", "SHA256SUMS"}) {
    const std::string whole = bytes(name);
    for (int i = 0; i < 40; ++i) {
      std::string damaged = whole;
      damaged[random.below(whole.size())] ^= static_cast<char>(1 << random.below(8));
      put(name, damaged);
      EXPECT_NE(failure(), "no error") << name;
    }
    put(name, whole);
  }
  EXPECT_EQ(failure(), "no error");
}

TEST_F(HostileBundle, EveryTruncationIsNoticed) {
  for (const char* name :
       {"manifest.json", "weights.safetensors", "calibration.json", "README.md", "SHA256SUMS"}) {
    const std::string whole = bytes(name);
    for (const std::size_t size :
         {whole.size() - 1, whole.size() / 2, std::size_t{1}, std::size_t{0}}) {
      put(name, whole.substr(0, size));
      EXPECT_NE(failure(), "no error") << name << " " << size;
    }
    fs::remove(place() / name);
    EXPECT_THAT(failure(), HasSubstr(name));
    put(name, whole);
  }
}

TEST_F(HostileBundle, DamagedWeightsWithGoodHashesNeverCrash) {
  base::Random random(2);
  const std::string whole = bytes("weights.safetensors"), manifest = bytes("manifest.json");
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    const std::size_t header = 2000;  // most of it lies there
    damaged[random.below(i % 2 == 0 ? header : whole.size())] ^=
        static_cast<char>(1 << random.below(8));
    put("weights.safetensors", damaged);
    failure(VerifyMode::size_only);  // an error or not: typed, and soon
  }
}

TEST_F(HostileBundle, DamagedManifestsNeverCrash) {
  base::Random random(3);
  const std::string whole = bytes("manifest.json");
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 1 + i % 3; ++k) {
      damaged[random.below(whole.size())] = static_cast<char>(random.below(256));
    }
    put("manifest.json", damaged);
    failure(VerifyMode::size_only);
  }
}

TEST_F(HostileBundle, PathsStayInside) {
  for (const char* path : {"../weights.safetensors", "/etc/passwd", "a/../../x", "", ".", "..",
                           "a//b", "a/", "./weights.safetensors", "weights\\x", "a b"}) {
    EXPECT_THAT(failure_after([&](json& m) { m["files"][2]["path"] = path; }),
                HasSubstr("files[2].path"))
        << path;
  }
  EXPECT_THAT(failure_after([](json& m) { m["files"][2]["path"] = std::string("weights\0x", 9); }),
              HasSubstr("files[2].path"));
  for (const char* path : {"manifest.json", "SHA256SUMS", "provenance.json", "README.md"}) {
    EXPECT_THAT(failure_after([&](json& m) { m["files"][2]["path"] = path; }),
                HasSubstr("listed already"));
  }
}

TEST_F(HostileBundle, LinksAndPipesAreRefused) {
  const fs::path target = folder_.path() / "elsewhere";
  for (const char* name : {"weights.safetensors", "manifest.json", "README.md", "SHA256SUMS"}) {
    const std::string whole = bytes(name);
    base::write_file_atomically(target, whole);
    fs::remove(place() / name);
    fs::create_symlink(target, place() / name);
    EXPECT_THAT(failure(), HasSubstr("symbolic link")) << name;
    fs::remove(place() / name);
    ASSERT_EQ(::mkfifo((place() / name).c_str(), 0600), 0);
    EXPECT_THAT(failure(), HasSubstr("not a regular file")) << name;
    fs::remove(place() / name);
    fs::create_directory(place() / name);
    EXPECT_THAT(failure(), HasSubstr("not a regular file")) << name;
    fs::remove(place() / name);
    put(name, whole);
  }
  EXPECT_EQ(failure(), "no error");
}

TEST_F(HostileBundle, FoldersOnTheWayAreNoLinksEither) {
  fs::create_directory(folder_.path() / "outside");
  base::write_file_atomically(folder_.path() / "outside" / "notes.md", "x");
  fs::create_directory_symlink(folder_.path() / "outside", place() / "docs");
  const auto add = [](json& m) {
    m["files"].push_back({{"path", "docs/notes.md"},
                          {"role", "x"},
                          {"size", 1},
                          {"sha256", base::sha256_hex(std::string_view("x"))}});
    m["format_version"] = "1.1";  // whose roles may be new
  };
  json manifest = json::parse(bytes("manifest.json"));
  add(manifest);
  put_manifest(manifest.dump());
  put("SHA256SUMS",
      bytes("SHA256SUMS") + base::sha256_hex(std::string_view("x")) + "  docs/notes.md\n");
  EXPECT_THAT(failure(), HasSubstr("docs/notes.md"));
  fs::remove(place() / "docs");
  fs::rename(folder_.path() / "outside", place() / "docs");
  EXPECT_EQ(failure(), "no error");
}

TEST_F(HostileBundle, JsonIsStrict) {
  const std::string whole = bytes("manifest.json");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t start = from.starts_with("\"tau") ? text.find("\"linear\": {") : 0;
    const std::size_t at = text.find(from, start);
    EXPECT_NE(at, std::string::npos) << from;
    put_manifest(text.replace(at, from.size(), to));
    return failure();
  };
  EXPECT_THAT(replaced("\"license\"", "\"format\": \"dgap-bundle\", \"license\""),
              HasSubstr("twice"));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tau\": 0.5, \"tau\": 0.9"), HasSubstr("twice"));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tau\": 1e400"), HasSubstr("not valid JSON"));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tau\": NaN"), HasSubstr("not valid JSON"));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tau\": null"), HasSubstr("threshold.tau: is null"));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tau\": \"0.5\""), HasSubstr("threshold.tau: is \"0.5\""));
  EXPECT_THAT(replaced("\"tau\": 0.5", "\"tauu\": 0.5"), HasSubstr("threshold.tau: is missing"));
  EXPECT_THAT(replaced("\"policy\"", "\"polizy\": 1, \"policy\""), HasSubstr("is policy meant?"));
  EXPECT_THAT(replaced("\"window\": 4", "\"window\": 4.0"), HasSubstr("expected an integer"));
  EXPECT_THAT(replaced("\"window\": 4", "\"window\": 18446744073709551615"),
              HasSubstr("expected an integer"));
  EXPECT_THAT(replaced("\"window\": 4", "\"window\": 99999999999999999999999"),
              HasSubstr("expected an integer"));
  EXPECT_THAT(replaced("\"window\": 4", "\"window\": -4"), HasSubstr("expected an integer"));
  EXPECT_THAT(replaced("\"toy\"", "\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(replaced("{\n", "{\n// comment\n"), HasSubstr("not valid JSON"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_THAT(replaced("\"validation\": {", "\"validation\": {\"b\":" + deep), HasSubstr("nested"));
  put_manifest(std::string(5 << 20, ' '));
  EXPECT_THAT(failure(), HasSubstr("at most 4194304"));
  put_manifest("[1]");
  EXPECT_THAT(failure(), HasSubstr("does not hold a JSON object"));
  put_manifest("{\"a\": [" + std::string(2'000'000, ' ') + std::string("0") + "]}");
  EXPECT_THAT(failure(), HasSubstr("format: is missing"));
}

TEST_F(HostileBundle, ManyMembersAreReadInTime) {
  std::string many = "{\"a0\": 0";
  for (int i = 1; i < 131'000; ++i) many += ",\"" + std::to_string(i) + "\":0";
  put_manifest(many + "}");
  EXPECT_THAT(failure(), HasSubstr("format: is missing"));
}

TEST_F(HostileBundle, VersionsAreChecked) {
  const auto unsupported = [&](const auto& change) {
    json manifest = json::parse(bytes("manifest.json"));
    change(manifest);
    put_manifest(manifest.dump());
    EXPECT_THROW(read_bundle(place()), UnsupportedBundleError);
    return failure();
  };
  const std::string whole = bytes("manifest.json");
  const std::string newer = unsupported([](json& m) { m["format_version"] = "2.0"; });
  EXPECT_THAT(newer, ::testing::AllOf(HasSubstr("2.0"), HasSubstr("1.0")));
  put("manifest.json", whole);
  EXPECT_THAT(unsupported([](json& m) {
                m = {{"format", "dgap-bundle"}, {"format_version", "7.3"}};
              }),
              HasSubstr("7.3"));  // whatever else a later major version may look like
  put("manifest.json", whole);
  const std::string runtime = unsupported([](json& m) { m["min_runtime_version"] = "99.0.0"; });
  EXPECT_THAT(runtime, ::testing::AllOf(HasSubstr("99.0.0"), HasSubstr("0.1.0")));
  put("manifest.json", whole);
  EXPECT_THAT(unsupported([](json& m) { m["required_features"] = {"context-99"}; }),
              HasSubstr("context-99"));
  put("manifest.json", whole);
  EXPECT_THAT(unsupported([](json& m) { m["features"]["version"] = 2; }),
              HasSubstr("features.version"));
  for (const char* version :
       {"1", "1.", "1.0.0", "-1.0", "1.-1", "1.0 ", " 1.0", "one", "1.99999999999"}) {
    put("manifest.json", whole);
    EXPECT_THAT(failure_after([&](json& m) { m["format_version"] = version; }),
                HasSubstr("format_version"))
        << version;
  }
}

TEST_F(HostileBundle, NewerMinorVersionsMayHaveNewKeys) {
  const std::string whole = bytes("manifest.json");
  const auto add = [](json& m) { m["precisions"]["mlp"]["novelty"] = 1, m["news"] = {1}; };
  EXPECT_THAT(failure_after(add), HasSubstr("novelty: is unknown"));
  put("manifest.json", whole);
  EXPECT_EQ(failure_after([&](json& m) { add(m), m["format_version"] = "1.1"; }), "no error");
}

TEST_F(HostileBundle, SumsAndManifestAgree) {
  const std::string whole = bytes("SHA256SUMS");
  put("SHA256SUMS", whole + whole.substr(0, 66) + "extra\n");
  EXPECT_THAT(failure(), HasSubstr("lists extra"));
  put("SHA256SUMS", whole + whole);
  EXPECT_THAT(failure(), HasSubstr("line 5"));
  put("SHA256SUMS", whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1));
  EXPECT_THAT(failure(), HasSubstr("does not list weights.safetensors"));
  put("SHA256SUMS", std::string(1 << 20, 'a'));
  EXPECT_THAT(failure(), HasSubstr("at most 65536"));
}

TEST_F(HostileBundle, FilesOfTheManifestAreAsked) {
  const std::string whole = bytes("manifest.json");
  const auto check = [&](const char* message, const auto& change) {
    put_manifest(whole);
    EXPECT_THAT(failure_after(change), HasSubstr(message));
  };
  check("the manifest says 9", [](json& m) { m["files"][1]["size"] = 9; });
  check("expected an integer", [](json& m) { m["files"][1]["size"] = -1; });
  check("expected an integer", [](json& m) { m["files"][1]["size"] = std::int64_t{1} << 40; });
  check("another hash", [](json& m) { m["files"][1]["sha256"] = std::string(64, '0'); });
  check("64 lower-case", [](json& m) { m["files"][1]["sha256"] = "abc"; });
  check("role: is \"code\"", [](json& m) { m["files"][1]["role"] = "code"; });
  check("one file of role weights", [](json& m) { m["files"].erase(2); });
  check("at most 64 files", [](json& m) { m["files"] = json(std::vector<int>(65, 0)); });
}

}  // namespace
}  // namespace dgap::schemas
