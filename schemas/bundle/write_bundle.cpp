#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/bundle/manifest.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::schemas {
namespace {

namespace fs = std::filesystem;

/// ".<name>.<what>-<pid>-<n>" beside `directory`: same file system, so that rename works.
fs::path sibling(const fs::path& directory, const char* what) {
  static std::atomic<unsigned> counter{0};
  std::string name(".");
  name += directory.filename().string();
  name +=
      std::string(".") + what + "-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  return directory.parent_path() / name;
}

/// A folder that is removed again unless it was renamed away.
struct TemporaryFolder {
  explicit TemporaryFolder(fs::path p) : path(std::move(p)) {
    std::error_code error;
    if (!fs::create_directory(path, error)) {
      throw base::IoError(path.string() + ": cannot be created: " + error.message());
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path path;
};

/// Only a bundle, or nothing at all, is replaced.
void check_replaceable(const fs::path& directory) {
  const bool there = fs::exists(fs::symlink_status(directory));
  if (!there || fs::is_regular_file(directory / kManifest)) return;
  if (fs::is_directory(directory) && fs::is_empty(directory)) return;
  throw base::UsageError(directory.string() +
                         ": exists and is no bundle (it has no manifest.json); it is not "
                         "replaced: choose another place or remove it");
}

/// Atomically where the file system can exchange two names; else the old bundle is renamed away
/// first, and stays beside the new name if the machine stops right then.
void replace(const fs::path& fresh, const fs::path& directory) {
  if (!fs::exists(directory)) {
    base::rename_durably(fresh, directory);
    return;
  }
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE) == 0) {
    base::sync_path(directory.parent_path());
    return;  // `fresh` is the older bundle now, which its TemporaryFolder removes
  }
  const fs::path old = sibling(directory, "old");
  base::rename_durably(directory, old);
  base::rename_durably(fresh, directory);
  fs::remove_all(old);
}

FileEntry entry(std::string_view path, std::string_view role, std::string_view bytes) {
  return {std::string(path), std::string(role), static_cast<std::int64_t>(bytes.size()),
          base::sha256_hex(bytes)};
}

std::string sums_text(const std::vector<FileEntry>& files, std::string_view manifest_bytes) {
  std::string text = base::sha256_hex(manifest_bytes) + "  " + std::string(kManifest) + "\n";
  for (const FileEntry& file : files) text += file.sha256 + "  " + file.path + "\n";
  return text;
}

struct Contents {
  std::string weights, manifest, sums;
};

/// The bytes of the files, checked as a reader will check them: what would not be read back does
/// not ship.
Contents contents_of(const fs::path& place, const Bundle& bundle, std::string_view calibration,
                     std::string_view readme, std::string_view provenance) {
  Contents contents;
  try {
    parse_json_object(calibration, (place / kCalibration).string(), kMaxDepth);
    parse_json_object(provenance, (place / kProvenance).string(), kMaxDepth);
    contents.weights = encode_safetensors(bundle.tensors);
    const std::vector<FileEntry> files = {entry(kCalibration, "calibration", calibration),
                                          entry(kReadme, "readme", readme),
                                          entry(kWeights, "weights", contents.weights)};
    contents.manifest = manifest_text(bundle, files);
    contents.sums = sums_text(files, contents.manifest);
    parse_manifest(contents.manifest, (place / kManifest).string());
    check_tensors(bundle, (place / kWeights).string());
  } catch (const base::IoError& error) {
    throw base::FailedError(std::string("the bundle is not written: ") + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw base::FailedError("the bundle is not written: " + place.string() +
                            ": cannot be told as JSON: " + error.what());
  }
  return contents;
}

}  // namespace

void write_bundle(const std::filesystem::path& directory, const Bundle& bundle,
                  std::string_view calibration_json, std::string_view readme,
                  std::string_view provenance_json) {
  const fs::path target = fs::absolute(directory).lexically_normal();
  const fs::path place = target.has_filename() ? target : target.parent_path();
  const Contents contents = contents_of(place, bundle, calibration_json, readme, provenance_json);
  check_replaceable(place);
  const TemporaryFolder fresh(sibling(place, "tmp"));
  base::write_file_atomically(fresh.path / kWeights, contents.weights);
  base::write_file_atomically(fresh.path / kCalibration, calibration_json);
  base::write_file_atomically(fresh.path / kReadme, readme);
  base::write_file_atomically(fresh.path / kProvenance, provenance_json);
  base::write_file_atomically(fresh.path / kSums, contents.sums);
  base::write_file_atomically(fresh.path / kManifest, contents.manifest);
  replace(fresh.path, place);
}

}  // namespace dgap::schemas
