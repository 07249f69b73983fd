#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

/// Summaries, one per kind of file. With `whole`, every byte is read and checked.
namespace dgap::app {

nlohmann::ordered_json describe_model(const std::filesystem::path& file, bool whole);
nlohmann::ordered_json describe_trace_part(const std::filesystem::path& file, bool whole);
nlohmann::ordered_json describe_traces(const std::filesystem::path& folder, bool whole);
/// Result files are small and always read whole.
nlohmann::ordered_json describe_sensitivity(const std::filesystem::path& file);
nlohmann::ordered_json describe_allocation_results(const std::filesystem::path& file);
nlohmann::ordered_json describe_bundle(const std::filesystem::path& folder, bool whole);

}  // namespace dgap::app
