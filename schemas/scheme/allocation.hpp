#pragma once
#include <filesystem>
#include <vector>

#include "schemas/scheme/scheme.hpp"

/// The allocation file: which layers and KV heads of a model have other tensors than a scheme's
/// (docs/schemes.md, allocation.schema.json).
namespace dgap::schemas {

struct Allocation {
  int layers = 0, kv_heads = 0;  // of the model that it is for
  std::vector<Override> overrides;
};

/// IoError when the file cannot be written.
void write_allocation(const std::filesystem::path& file, const Allocation& allocation);

/// Reads a file whose tensors change those of `scheme`. IoError naming the file where it cannot be
/// read or is damaged, UsageError naming file and key where its contents have no meaning.
Allocation read_allocation(const std::filesystem::path& file, const Scheme& scheme);

/// `scheme` with the allocation's overrides after its own, for the allocation's model.
void apply(const Allocation& allocation, Scheme& scheme);

}  // namespace dgap::schemas
