#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace dgap::schemas {

/// Kinds of synthetic retrieval prompts (docs/prompts.md), as configurations and results name them.
inline constexpr std::array<std::string_view, 10> kRetrievalKinds = {
    "passkey", "single_key", "multi_key", "multi_value", "uuid",
    "phrase",  "dense",      "reversed",  "paraphrased", "count"};

inline std::vector<std::string> all_retrieval_kinds() {
  return {kRetrievalKinds.begin(), kRetrievalKinds.end()};
}

}  // namespace dgap::schemas
