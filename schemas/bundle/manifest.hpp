#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "schemas/bundle/bundle.hpp"

/// manifest.json (schemas/bundle/bundle-format.md, manifest.schema.json) to and from Bundle.
namespace dgap::schemas {

inline constexpr std::string_view kManifest = "manifest.json";
inline constexpr std::string_view kWeights = "weights.safetensors";
inline constexpr std::string_view kCalibration = "calibration.json";
inline constexpr std::string_view kReadme = "README.md";
inline constexpr std::string_view kSums = "SHA256SUMS";
inline constexpr std::string_view kProvenance = "provenance.json";

inline constexpr std::size_t kMaxManifest = std::size_t{4} << 20;
inline constexpr std::size_t kMaxDepth = 32;
inline constexpr std::size_t kMaxValues = std::size_t{1} << 18;
inline constexpr std::int64_t kMaxFileSize = std::int64_t{256} << 20;

/// One entry of `files`.
struct FileEntry {
  std::string path;  // relative, "/" between names of [A-Za-z0-9._-]
  std::string role;  // weights | calibration | readme
  std::int64_t size = 0;
  std::string sha256;
};

struct Manifest {
  Bundle bundle;  // without tensors
  std::vector<FileEntry> files;
};

/// Everything that the manifest alone can show to be wrong: IoError naming `file`, key path and
/// value.
Manifest parse_manifest(std::string_view text, const std::string& file);
std::string manifest_text(const Bundle& bundle, const std::vector<FileEntry>& entries);

/// The tensors are exactly those that the entries' networks declare: shapes that chain from the
/// features to one output, finite values. IoError naming `file` and the tensor.
void check_tensors(const Bundle& bundle, const std::string& file);

}  // namespace dgap::schemas
