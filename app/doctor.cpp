#include "app/doctor.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/machine.hpp"
#include "base/version.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json memory_json() {
  const Memory m = memory();
  Json object = {{"total_bytes", m.total}, {"available_bytes", m.available}};
  if (m.limit) object["limit_bytes"] = *m.limit;
  return object;
}

Json file_system(const fs::path& folder) {
  const Locking locking = test_locking(folder);
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  const char* hdf5 = std::getenv("HDF5_USE_FILE_LOCKING");
  Json object = {{"folder", fs::absolute(folder).lexically_normal().string()},
                 {"locking", locking.works},
                 {"locking_detail", locking.detail},
                 {"HDF5_USE_FILE_LOCKING", hdf5 == nullptr ? "not set" : hdf5}};
  if (!error) object["free_bytes"] = space.available;
  return object;
}

Json cuda() {
#if defined(DGAP_HAVE_CUDA)
  constexpr bool kCompiler = true;
#else
  constexpr bool kCompiler = false;
#endif
  const bool device = fs::exists("/dev/nvidiactl") || fs::exists("/proc/driver/nvidia/version");
  return {{"compiler_at_build", kCompiler},
          {"device_seen", device},
          {"usable", false},
          {"detail", "the CUDA backend is not part of this version; model.device: cpu decodes"}};
}

}  // namespace

Json doctor(const fs::path& folder) {
  Json compute = {{"f32", "yes"}};
  compute["bf16"] = has_native_bf16() ? "native" : "emulated, slower than f32";
  compute["auto"] = has_native_bf16() ? "bf16" : "f32";
  return {{"version", base::version()},
          {"commit", base::commit()},
          {"processor", cpu_model()},
          {"instruction_sets", instruction_sets()},
          {"compute", compute},
          {"threads",
           {{"hardware", std::thread::hardware_concurrency()}, {"available", available_threads()}}},
          {"memory", memory_json()},
          {"cuda", cuda()},
          {"file_system", file_system(folder)}};
}

}  // namespace dgap::app
