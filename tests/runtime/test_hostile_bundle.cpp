#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "runtime/include/dgap/runtime.h"
#include "tests/runtime/damage.hpp"
#include "tests/runtime/toy_bundle.hpp"

/// Bundles made to do harm, opened through the C ABI in a process of their own: each is a status
/// and a message that names file and key, within a second and 100 MB.
namespace dgap {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Damage;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMaxSeconds = 10;
constexpr long kMaxKilobytes = 4'000'000;
#else
constexpr double kMaxSeconds = 1;
constexpr long kMaxKilobytes = 100'000;
#endif

struct Answer {
  std::int32_t status = -1;  // of dgap_bundle_open; -1: the process died
  std::string message;
  double seconds = 0;  // of the processor
  long kilobytes = 0;  // resident, at most
};

void write_answer(int to, const fs::path& bundle) {
  dgap_bundle* opened = nullptr;
  const std::int32_t status = dgap_bundle_open(bundle.c_str(), &opened);
  const std::string message = status == DGAP_OK ? "" : dgap_last_error();
  dgap_bundle_close(opened);
  if (::write(to, &status, sizeof status) < 0 || ::write(to, message.data(), message.size()) < 0)
    ::_exit(1);
}

Answer open_in_a_process(const fs::path& bundle) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // it may not wait for ever
    write_answer(pipe[1], bundle);
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::array<char, 4096> text{};
  std::size_t size = 0;
  for (ssize_t n; (n = ::read(pipe[0], text.data() + size, text.size() - size)) > 0;)
    size += static_cast<std::size_t>(n);
  ::close(pipe[0]);
  rusage used{};
  ::wait4(child, nullptr, 0, &used);
  Answer answer;
  if (size < sizeof answer.status) return answer;
  std::memcpy(&answer.status, text.data(), sizeof answer.status);
  answer.message.assign(text.data() + sizeof answer.status, size - sizeof answer.status);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  answer.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  answer.kilobytes = used.ru_maxrss;
  return answer;
}

struct Case {
  const char* name;
  void (*damage)(const Damage&);
  dgap_status status;
  std::vector<const char*> told;  // parts of the message
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kTensor = "mlp.detector.0.weight";

void replace_by_link(const Damage& d, const std::string& name) {
  fs::rename(d / name, d / ("../" + name));
  fs::create_symlink("../" + name, d / name);
}

std::string nested(int depth, const char* open) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  return text;
}

/// 4 MiB of `item`, ...: what takes the most memory per byte.
std::string many(const std::string& item) {
  std::string text = "{\"a\":[" + item;
  while (text.size() + item.size() + 3 < (std::size_t{4} << 20)) text += "," + item;
  return text + "]}";
}

/// An object of `count` members, and `last`.
std::string many_keys(int count, const std::string& last) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += "\"" + std::to_string(i) + "\":{},";
  return text + last + "}";
}

template <class T>
void set_element(const Damage& d, T value) {
  std::string bytes = d.bytes(kWeights);
  std::memcpy(&bytes[bytes.size() - sizeof value], &value, sizeof value);
  d.weights(bytes);
}

// clang-format off
const Case kCases[] = {
    {"Untouched", [](const Damage&) {}, DGAP_OK, {}},
    // Files.
    {"NoFolder", [](const Damage& d) { fs::remove_all(d / ""); }, DGAP_IO, {"bundle", "No such file"}},
    {"FolderIsAFile", [](const Damage& d) { fs::remove_all(d / ""); std::ofstream((d / "").parent_path()) << "x"; }, DGAP_IO, {"bundle", "Not a directory"}},
    {"NoManifest", [](const Damage& d) { fs::remove(d / kManifest); }, DGAP_IO, {kManifest, "No such file"}},
    {"EmptyManifest", [](const Damage& d) { d.manifest(""); }, DGAP_IO, {kManifest, "not valid JSON"}},
    {"EmptyWeights", [](const Damage& d) { d.weights(""); }, DGAP_IO, {kWeights, "at least 8"}},
    {"EmptySums", [](const Damage& d) { d.put("SHA256SUMS", ""); }, DGAP_IO, {"SHA256SUMS", "does not list manifest.json"}},
    {"ManifestIsALink", [](const Damage& d) { replace_by_link(d, kManifest); }, DGAP_IO, {kManifest, "symbolic link"}},
    {"WeightsAreALink", [](const Damage& d) { replace_by_link(d, kWeights); }, DGAP_IO, {kWeights, "symbolic link"}},
    {"WeightsAreAFolder", [](const Damage& d) { fs::remove(d / kWeights); fs::create_directory(d / kWeights); }, DGAP_IO, {kWeights, "not a regular file"}},
    {"ManifestIsAPipe", [](const Damage& d) { fs::remove(d / kManifest); ::mkfifo((d / kManifest).c_str(), 0600); }, DGAP_IO, {kManifest, "not a regular file"}},
    {"WeightsAreAPipe", [](const Damage& d) { fs::remove(d / kWeights); ::mkfifo((d / kWeights).c_str(), 0600); }, DGAP_IO, {kWeights, "not a regular file"}},
    {"WeightsAreADevice", [](const Damage& d) { fs::remove(d / kWeights); fs::create_symlink("/dev/zero", d / kWeights); }, DGAP_IO, {kWeights, "symbolic link"}},
    {"ManifestOfAGigabyte", [](const Damage& d) { d.put_sparse(kManifest, 1 << 30); }, DGAP_IO, {kManifest, "1073741824", "at most 4194304"}},
    {"SumsOfAGigabyte", [](const Damage& d) { d.put_sparse("SHA256SUMS", 1 << 30); }, DGAP_IO, {"SHA256SUMS", "at most 65536"}},
    {"WeightsOfAGigabyte", [](const Damage& d) { d.put_sparse(kWeights, 1 << 30); }, DGAP_IO, {kWeights, "1073741824", "the manifest says"}},
    {"WeightsOfAGigabyteDeclared", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["size"] = 1 << 30; }); d.put_sparse(kWeights, 1 << 30); }, DGAP_IO, {"files[2].size", "268435456"}},
    {"WeightsOfZeros", [](const Damage& d) { d.put_sparse(kWeights, 256 << 20); d.list(kWeights); }, DGAP_IO, {kWeights, "begin with {"}},
    {"LargeReadme", [](const Damage& d) { d.put_sparse("README.md", 128 << 20); d.list("README.md"); d.put("README.md", "#"); fs::resize_file(d / "README.md", 128 << 20); }, DGAP_IO, {"README.md", "SHA-256"}},
    {"LargeWeightsOfAnotherNetwork", [](const Damage& d) {
       d.weights_header([](json& h) { h = {{"x", {{"dtype", "F32"}, {"shape", {50'000'000}}, {"data_offsets", {0, 200'000'000}}}}}; });
       const std::string whole = d.bytes(kWeights);
       std::uint64_t length = 0;
       std::memcpy(&length, whole.data(), 8);
       d.put(kWeights, whole.substr(0, 8 + length));
       fs::resize_file(d / kWeights, 8 + length + 200'000'000);
       d.list(kWeights); }, DGAP_IO, {kWeights, "is missing"}},
    {"PathAbove", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["path"] = "../weights.safetensors"; }); }, DGAP_IO, {kManifest, "files[2].path"}},
    {"PathAbsolute", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["path"] = "/etc/passwd"; }); }, DGAP_IO, {kManifest, "files[2].path"}},
    {"PathWithNul", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["path"] = std::string("weights.safetensors\0x", 21); }); }, DGAP_IO, {kManifest, "files[2].path"}},
    {"PathTwice", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["path"] = m["files"][1]["path"]; }); }, DGAP_IO, {kManifest, "files", "listed already"}},
    {"WrongSize", [](const Damage& d) { d.manifest([](json& m) { m["files"][2]["size"] = 8; }); }, DGAP_IO, {kWeights, "the manifest says 8"}},
    {"WrongHash", [](const Damage& d) { d.put(kWeights, d.bytes(kWeights).replace(5000, 1, "\1")); }, DGAP_IO, {kWeights, "SHA-256"}},
    {"UnlistedHash", [](const Damage& d) { d.put("SHA256SUMS", d.bytes("SHA256SUMS") + std::string(64, 'a') + "  x\n"); }, DGAP_IO, {"SHA256SUMS", "lists x"}},
    // JSON.
    {"KeyTwice", [](const Damage& d) { d.manifest_text("\"license\"", "\"format\": 1, \"license\""); }, DGAP_IO, {kManifest, "\"format\"", "twice"}},
    {"UnknownKey", [](const Damage& d) { d.manifest([](json& m) { m["precisions"]["mlp"]["tua"] = 1; }); }, DGAP_IO, {kManifest, "precisions.mlp.tua", "unknown"}},
    {"HugeReal", [](const Damage& d) { d.manifest_text("\"alpha\": 0.9", "\"alpha\": 1e999"); }, DGAP_IO, {kManifest, "1e999"}},
    {"HugeInteger", [](const Damage& d) { d.manifest_text("\"window\": 4", "\"window\": 9223372036854775808"); }, DGAP_IO, {kManifest, "window", "9223372036854775808"}},
    {"NegativeInteger", [](const Damage& d) { d.manifest_text("\"window\": 4", "\"window\": -9223372036854775808"); }, DGAP_IO, {kManifest, "window", "-9223372036854775808"}},
    {"HugeVocabulary", [](const Damage& d) { d.manifest([](json& m) { m["base_model"]["vocab_size"] = m["base_model"]["logits_width"] = 2147483647; }); }, DGAP_IO, {kManifest, "base_model.vocab_size", "16777216"}},
    {"WindowAboveTheVocabulary", [](const Damage& d) { d.manifest([](json& m) { m["precisions"]["mlp"]["window"] = 41; }); }, DGAP_IO, {kManifest, "precisions.mlp.window", "41"}},
    {"WindowAboveTheLimit", [](const Damage& d) { d.manifest([](json& m) { m["base_model"]["vocab_size"] = m["base_model"]["logits_width"] = 1 << 24; m["precisions"]["mlp"]["window"] = 1 << 24; }); }, DGAP_IO, {kManifest, "precisions.mlp.window", "100000"}},
    {"ManyLayers", [](const Damage& d) { d.manifest([](json& m) { m["precisions"]["mlp"]["detector"]["layers"] = 1'000'000; }); }, DGAP_IO, {kManifest, "precisions.mlp.detector.layers"}},
    {"DeepArrays", [](const Damage& d) { d.manifest("{\"a\":" + nested(100'000, "[")); }, DGAP_IO, {kManifest, "nested more than 32"}},
    {"DeepObjects", [](const Damage& d) { d.manifest(nested(100'000, "{\"a\":")); }, DGAP_IO, {kManifest, "nested more than 32"}},
    {"HugeText", [](const Damage& d) { d.manifest([](json& m) { m["base_model"]["name"] = std::string(4'000'000, 'n'); }); }, DGAP_IO, {kManifest, "base_model.name", "4000000 bytes"}},
    {"HugeKey", [](const Damage& d) { d.manifest([](json& m) { m[std::string(4'000'000, 'k')] = 1; }); }, DGAP_IO, {kManifest, "kkk: is unknown"}},
    {"ManyEmptyObjects", [](const Damage& d) { d.manifest(many("{}")); }, DGAP_IO, {kManifest, "more than 262144 values"}},
    {"ManyEmptyArrays", [](const Damage& d) { d.manifest(many("[]")); }, DGAP_IO, {kManifest, "more than 262144 values"}},
    {"ManyKeys", [](const Damage& d) { d.manifest(many_keys(300'000, "\"x\":0")); }, DGAP_IO, {kManifest, "more than 262144 values"}},
    {"ManyObjects", [](const Damage& d) { d.manifest(many_keys(130'000, "\"x\":0")); }, DGAP_IO, {kManifest, "format: is missing"}},
    {"ManyKeysAndOneTwice", [](const Damage& d) { d.manifest(many_keys(130'000, "\"7\":0")); }, DGAP_IO, {kManifest, "\"7\"", "twice"}},
    {"InvalidUtf8", [](const Damage& d) { d.manifest_text("\"toy\"", "\"\xc3\x28\""); }, DGAP_IO, {kManifest, "not valid JSON"}},
    {"NewerMajor", [](const Damage& d) { d.manifest([](json& m) { m["format_version"] = "2.0"; }); }, DGAP_UNSUPPORTED, {kManifest, "2.0", "1.0"}},
    {"NewerRuntime", [](const Damage& d) { d.manifest([](json& m) { m["min_runtime_version"] = "9.0.0"; }); }, DGAP_UNSUPPORTED, {kManifest, "9.0.0"}},
    {"UnknownFeature", [](const Damage& d) { d.manifest([](json& m) { m["required_features"] = {"teleport-1"}; }); }, DGAP_UNSUPPORTED, {kManifest, "teleport-1"}},
    // Tensors.
    {"AnotherType", [](const Damage& d) { d.weights_header([](json& h) { h[kTensor]["dtype"] = "F16"; }); }, DGAP_IO, {kWeights, kTensor, "dtype", "F16"}},
    {"AnotherShape", [](const Damage& d) { d.weights_header([](json& h) { h[kTensor]["shape"] = {20, 40}; }); }, DGAP_IO, {kWeights, kTensor, "[20, 40]"}},
    {"NegativeShape", [](const Damage& d) { d.weights_header([](json& h) { h[kTensor]["shape"] = {-1, 40}; }); }, DGAP_IO, {kWeights, kTensor, "shape"}},
    {"OverflowingShape", [](const Damage& d) { d.weights_header([](json& h) { h[kTensor]["shape"] = {1LL << 40, 1LL << 40}; }); }, DGAP_IO, {kWeights, kTensor}},
    {"OffsetBeyondTheFile", [](const Damage& d) { d.weights_header([](json& h) { h[kTensor]["data_offsets"] = {0, 1LL << 47}; }); }, DGAP_IO, {kWeights, kTensor, "data_offsets"}},
    {"OverlappingTensors", [](const Damage& d) { d.weights_header([](json& h) { h["mlp.detector.mean"]["data_offsets"] = h["mlp.detector.scale"]["data_offsets"]; }); }, DGAP_IO, {kWeights, "without holes"}},
    {"MissingTensor", [](const Damage& d) { d.weights_header([](json& h) { h["renamed"] = h[kTensor]; h.erase(kTensor); }); }, DGAP_IO, {kWeights, kTensor, "missing"}},
    {"NotANumber", [](const Damage& d) { set_element(d, 0x7fc00000u); }, DGAP_IO, {kWeights, "not finite"}},
    {"Infinity", [](const Damage& d) { set_element(d, 0xff800000u); }, DGAP_IO, {kWeights, "not finite"}},
    {"HeaderLengthOverflows", [](const Damage& d) { d.weights(d.bytes(kWeights).replace(0, 8, std::string(8, '\xff'))); }, DGAP_IO, {kWeights, "18446744073709551615"}},
    {"DeepHeader", [](const Damage& d) { const std::uint64_t n = 500'005; std::string s(8, '\0'); std::memcpy(s.data(), &n, 8); d.weights(s + "{\"a\":" + nested(100'000, "[[[[[")); }, DGAP_IO, {kWeights, "nested more than 3"}},
};
// clang-format on

class HostileBundle : public ::testing::TestWithParam<Case> {
 protected:
  HostileBundle() { test::write_toy_bundle(folder_.path() / "bundle", test::toy_bundle(40, 4)); }
  test::TemporaryFolder folder_;
  Damage bundle_{folder_.path() / "bundle"};
};

TEST_P(HostileBundle, IsRefusedInWordsAndInTime) {
  GetParam().damage(bundle_);
  const Answer answer = open_in_a_process(folder_.path() / "bundle");
  EXPECT_EQ(answer.status, GetParam().status) << answer.message;
  for (const char* part : GetParam().told) EXPECT_THAT(answer.message, HasSubstr(part));
  EXPECT_LT(answer.seconds, kMaxSeconds);
  EXPECT_LT(answer.kilobytes, kMaxKilobytes);
}

INSTANTIATE_TEST_SUITE_P(All, HostileBundle, ::testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

/// Cut anywhere, each file is refused by its own name.
TEST(CutBundle, IsRefused) {
  const test::TemporaryFolder folder;
  test::write_toy_bundle(folder.path() / "bundle", test::toy_bundle(40, 4));
  const Damage bundle(folder.path() / "bundle");
  const auto expect_refused = [&](const std::string& name, std::size_t size) {
    dgap_bundle* opened = nullptr;
    EXPECT_EQ(dgap_bundle_open((folder.path() / "bundle").c_str(), &opened), DGAP_IO)
        << name << " " << size;
    EXPECT_THAT(dgap_last_error(), HasSubstr(name)) << size;
  };
  for (const std::string name : {kManifest, kWeights, "SHA256SUMS", "calibration.json"}) {
    const std::string whole = bundle.bytes(name);
    const std::size_t step = std::max<std::size_t>(1, whole.size() / 150);
    for (std::size_t size = 0; size < whole.size(); size += step) {
      bundle.put(name, whole.substr(0, size));
      expect_refused(name, size);
      if (name != kWeights) continue;
      bundle.list(name);  // with the right size and hash
      expect_refused(name, size);
    }
    bundle.put(name, whole);
    if (name == kWeights) bundle.list(name);
  }
}

}  // namespace
}  // namespace dgap
