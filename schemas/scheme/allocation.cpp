#include "schemas/scheme/allocation.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schemas/bundle/strict_json.hpp"
#include "schemas/scheme/index_set.hpp"

namespace dgap::schemas {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxDepth = 8;
constexpr const char* kFormat = "dgap-allocation";
constexpr int kVersion = 1;

void check_within(const std::vector<int>& indices, int count, const std::string& where) {
  if (!indices.empty() && indices.back() >= count)
    throw base::UsageError(where + ": " + std::to_string(indices.back()) + " is not below " +
                           std::to_string(count) + ", the number that the file gives");
}

}  // namespace

void write_allocation(const std::filesystem::path& file, const Allocation& allocation) {
  const nlohmann::json object = {{"format", kFormat},
                                 {"version", kVersion},
                                 {"layers", allocation.layers},
                                 {"kv_heads", allocation.kv_heads},
                                 {"overrides", overrides_to_json(allocation.overrides)}};
  base::write_file_atomically(file, object.dump(2) + "\n");
}

Allocation read_allocation(const std::filesystem::path& file, const Scheme& scheme) {
  const std::string name = file.string();
  const nlohmann::json whole = parse_json_object(base::read_file(file, kMaxBytes), name, kMaxDepth);
  JsonObject object(whole, name, "");
  object.choice("format", {kFormat});
  const std::int64_t version = object.integer("version", 1, 1 << 30);
  if (version != kVersion)
    object.fail("version", "is " + std::to_string(version) + "; this build reads version " +
                               std::to_string(kVersion));
  Allocation allocation;
  allocation.layers = static_cast<int>(object.integer("layers", 1, kMaxIndex + 1));
  allocation.kv_heads = static_cast<int>(object.integer("kv_heads", 1, kMaxIndex + 1));
  allocation.overrides = overrides_from_json(object.any("overrides"), scheme, name + ": overrides");
  object.refuse_others();
  for (std::size_t i = 0; i < allocation.overrides.size(); ++i) {
    const std::string where = name + ": overrides." + std::to_string(i);
    check_within(allocation.overrides[i].layers, allocation.layers, where + ".layers");
    check_within(allocation.overrides[i].heads, allocation.kv_heads, where + ".heads");
  }
  Scheme combined = scheme;
  apply(allocation, combined);
  try {
    validate(combined);
  } catch (const base::UsageError& error) {
    throw base::UsageError(name + ": " + error.what());
  }
  return allocation;
}

void apply(const Allocation& allocation, Scheme& scheme) {
  scheme.overrides.insert(scheme.overrides.end(), allocation.overrides.begin(),
                          allocation.overrides.end());
  scheme.model_layers = allocation.layers;
  scheme.model_kv_heads = allocation.kv_heads;
}

}  // namespace dgap::schemas
