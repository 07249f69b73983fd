#include <map>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/bundle/bundle_folder.hpp"
#include "schemas/bundle/manifest.hpp"

namespace dgap::schemas {
namespace {

constexpr std::uint64_t kMaxSums = 64 << 10;

/// SHA256SUMS: lines of 64 digits, two spaces, a name, in any order; each file once.
std::map<std::string, std::string, std::less<>> parse_sums(std::string_view text,
                                                           const std::string& file) {
  std::map<std::string, std::string, std::less<>> sums;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool well_formed = end != std::string_view::npos && line.size() > 66 &&
                             line.substr(64, 2) == "  " &&
                             sums.emplace(line.substr(66), line.substr(0, 64)).second;
    if (!well_formed) {
      throw base::IoError(file + ": line " + std::to_string(sums.size() + 1) +
                          " is not a new \"<sha256>  <name>\"");
    }
    text.remove_prefix(end + 1);
  }
  return sums;
}

void check_hash(const std::string& shown, const std::string& found, const std::string& expected,
                std::string_view by) {
  if (found != expected) {
    throw base::IoError(shown + ": has SHA-256 " + found + "; " + std::string(by) + " says " +
                        expected.substr(0, 80) + " (the file is damaged or was changed)");
  }
}

/// SHA256SUMS lists the manifest and the manifest's files, all with the hashes that they have.
void check_sums(const BundleFolder& folder, std::string_view manifest_bytes,
                const std::vector<FileEntry>& files) {
  const std::string name(kSums);
  auto sums = parse_sums(folder.read(name, kMaxSums), folder.shown(name));
  const auto take = [&](const std::string& path) {
    const auto node = sums.extract(path);
    if (node.empty()) throw base::IoError(folder.shown(name) + ": does not list " + path);
    return node.mapped();
  };
  const std::string manifest(kManifest);
  check_hash(folder.shown(manifest), base::sha256_hex(manifest_bytes), take(manifest), kSums);
  for (const FileEntry& file : files) {
    if (take(file.path) != file.sha256) {
      throw base::IoError(folder.shown(name) + ": " + file.path +
                          ": the manifest has another hash");
    }
  }
  if (!sums.empty()) {
    throw base::IoError(folder.shown(name) + ": lists " + sums.begin()->first.substr(0, 80) +
                        ", which the manifest does not");
  }
}

/// What the file declares must be what the networks need before its data are read.
void read_weights(const BundleFolder& folder, const FileEntry& file, VerifyMode verify,
                  Bundle& bundle) {
  const std::string shown = folder.shown(file.path);
  const auto size = static_cast<std::uint64_t>(file.size);
  bundle.tensors =
      decode_safetensors_shapes(folder.read_start(file.path, kMaxSafetensorsStart), size, shown);
  check_tensors(bundle, shown);
  const std::string bytes = folder.read(file.path, size);
  if (verify == VerifyMode::full) {
    check_hash(shown, base::sha256_hex(bytes), file.sha256, "the manifest");
  }
  bundle.tensors = decode_safetensors(bytes, shown);
  check_tensors(bundle, shown);
}

}  // namespace

Bundle read_bundle(const std::filesystem::path& directory, VerifyMode verify) {
  const BundleFolder folder(directory);
  const std::string manifest_name(kManifest);
  const std::string manifest_bytes = folder.read(manifest_name, kMaxManifest);
  Manifest manifest = parse_manifest(manifest_bytes, folder.shown(manifest_name));
  if (verify == VerifyMode::full) check_sums(folder, manifest_bytes, manifest.files);
  for (const FileEntry& file : manifest.files) {
    const std::uint64_t size = folder.size(file.path);
    if (size != static_cast<std::uint64_t>(file.size)) {
      throw base::IoError(folder.shown(file.path) + ": is " + std::to_string(size) +
                          " bytes long; the manifest says " + std::to_string(file.size));
    }
    if (file.path == kWeights) {
      read_weights(folder, file, verify, manifest.bundle);
    } else if (verify == VerifyMode::full) {
      check_hash(folder.shown(file.path), folder.sha256(file.path), file.sha256, "the manifest");
    }
  }
  manifest.bundle.manifest_json = manifest_bytes;
  return std::move(manifest.bundle);
}

}  // namespace dgap::schemas
