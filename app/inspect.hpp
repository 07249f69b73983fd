#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace dgap::app {

/// A summary of a model, trace, bundle, run directory, configuration or result, read as far as that
/// needs.
nlohmann::ordered_json inspect(const std::filesystem::path& path);

/// Reads all of it and checks everything that its format promises. The summary with what was
/// checked; an error naming what is wrong otherwise.
nlohmann::ordered_json verify(const std::filesystem::path& path);

}  // namespace dgap::app
