#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the machine, and the limits that this process runs under, offer.
namespace dgap::app {

/// Processors that the process may use: its affinity mask, and the quota of its control group.
int available_threads();

struct Memory {
  std::int64_t total = 0, available = 0;  // bytes; available respects the control group
  std::optional<std::int64_t> limit;      // of the control group
};
Memory memory();

std::string cpu_model();
/// Of those that the toolkit's kernels know: "avx2", "avx512f", "avx512_bf16", "amx_bf16", ...
std::vector<std::string> instruction_sets();
/// Whether bf16 matrix products have instructions of their own.
bool has_native_bf16();

/// What flock() does in a folder, which is what HDF5 relies on.
struct Locking {
  bool works = false;
  std::string detail;
};
/// IoError when no file can be written there.
Locking test_locking(const std::filesystem::path& folder);

/// Parsed from the texts of the kernel's files, so that tests can give their own.
std::optional<double> cpu_quota(
    std::string_view cpu_max);  // "200000 100000" is 2; "max ..." is none
std::optional<std::int64_t> memory_limit(std::string_view memory_max);  // "max" is none
std::int64_t meminfo_bytes(std::string_view meminfo, std::string_view key);

}  // namespace dgap::app
