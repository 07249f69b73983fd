#include "app/machine.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::app {
namespace {

namespace fs = std::filesystem;

/// A small file of the kernel; empty where there is none.
std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// The folders of this process's control group (version 2) and of those around it.
std::vector<fs::path> control_groups() {
  const fs::path root = "/sys/fs/cgroup";
  std::vector<fs::path> groups = {root};
  const std::string own = read_text("/proc/self/cgroup");
  const std::size_t at = own.find("0::/");
  if (at == std::string::npos) return groups;
  const std::string relative = own.substr(at + 4, own.find('\n', at) - at - 4);
  fs::path group = root;
  for (const fs::path& part : fs::path(relative)) groups.push_back(group /= part);
  return groups;
}

int affinity_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

#if defined(__x86_64__)
struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}
#endif

}  // namespace

std::optional<double> cpu_quota(std::string_view cpu_max) {
  const std::optional<std::int64_t> quota = to_integer(cpu_max);
  const std::size_t space = cpu_max.find(' ');
  if (!quota || space == std::string_view::npos) return std::nullopt;
  const std::optional<std::int64_t> period = to_integer(cpu_max.substr(space + 1));
  if (!period || *period <= 0 || *quota <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<std::int64_t> memory_limit(std::string_view memory_max) {
  return to_integer(memory_max);
}

std::int64_t meminfo_bytes(std::string_view meminfo, std::string_view key) {
  const std::size_t at = meminfo.find(std::string(key) + ":");
  if (at == std::string_view::npos) return 0;
  std::string_view rest = meminfo.substr(at + key.size() + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return to_integer(rest).value_or(0) * 1024;
}

int available_threads() {
  double threads = affinity_count();
  for (const fs::path& group : control_groups()) {
    threads = std::min(threads, cpu_quota(read_text(group / "cpu.max")).value_or(threads));
  }
  const std::string v1 = "/sys/fs/cgroup/cpu/cpu.cfs_";
  threads = std::min(
      threads,
      cpu_quota(read_text(v1 + "quota_us") + " " + read_text(v1 + "period_us")).value_or(threads));
  return std::max(1, static_cast<int>(std::ceil(threads)));
}

Memory memory() {
  const std::string info = read_text("/proc/meminfo");
  Memory m{meminfo_bytes(info, "MemTotal"), meminfo_bytes(info, "MemAvailable"), std::nullopt};
  for (const fs::path& group : control_groups()) {
    const std::optional<std::int64_t> limit = memory_limit(read_text(group / "memory.max"));
    if (!limit) continue;
    m.limit = std::min(*limit, m.limit.value_or(*limit));
    const std::int64_t used = memory_limit(read_text(group / "memory.current")).value_or(0);
    m.available = std::min(m.available, std::max<std::int64_t>(0, *limit - used));
  }
  return m;
}

std::string cpu_model() {
  const std::string info = read_text("/proc/cpuinfo");
  const std::size_t at = info.find("model name");
  const std::size_t colon = info.find(": ", std::min(at, info.size()));
  if (at == std::string::npos || colon == std::string::npos) return "unknown";
  return info.substr(colon + 2, info.find('\n', colon) - colon - 2);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) sets.emplace_back(name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add((cpuid(1, 0).c >> 29) & 1, "f16c");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"), "avx512bw_vl");
  add(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
  add(__builtin_cpu_supports("avx512f") && ((cpuid(7, 1).a >> 5) & 1), "avx512_bf16");
  add((cpuid(7, 0).d >> 22) & (cpuid(7, 0).d >> 24) & 1, "amx_bf16");
#endif
  return sets;
}

bool has_native_bf16() {
  const std::vector<std::string> sets = instruction_sets();
  return std::any_of(sets.begin(), sets.end(),
                     [](const std::string& s) { return s.ends_with("_bf16"); });
}

Locking test_locking(const fs::path& folder) {
  const fs::path file = folder / (".dgap-lock-test-" + std::to_string(::getpid()));
  const base::Descriptor first(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (first.get() < 0) base::throw_errno(folder.string(), "no file can be written here");
  const base::Descriptor second(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  ::unlink(file.c_str());
  constexpr const char* kRemedy =
      "; set HDF5_USE_FILE_LOCKING=FALSE, and let one process at a time write a run";
  if (::flock(first.get(), LOCK_EX | LOCK_NB) != 0) {
    return {false, std::string("locks are refused: ") + std::strerror(errno) + kRemedy};
  }
  if (second.get() < 0 || ::flock(second.get(), LOCK_EX | LOCK_NB) == 0) {
    return {false, std::string("locks are granted twice") + kRemedy};
  }
  return {true, "exclusive locks are granted once"};
}

}  // namespace dgap::app
