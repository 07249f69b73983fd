#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace dgap::app {

/// What this build and machine offer: instruction sets, compute types, threads, memory, devices,
/// and locking and space of the file system at `folder`. IoError when nothing can be written there.
nlohmann::ordered_json doctor(const std::filesystem::path& folder);

}  // namespace dgap::app
