#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Sets of layers or heads as text: "0-3,7", numbers from 0 in ascending order.
namespace dgap::schemas {

inline constexpr int kMaxIndex = 4095;

std::string index_set_text(const std::vector<int>& indices);
/// None where the text is not of that form or has a number above kMaxIndex.
std::optional<std::vector<int>> parse_index_set(std::string_view text);

}  // namespace dgap::schemas
