#include "schemas/scheme/index_set.hpp"

#include "schemas/scheme/preset_reader.hpp"

namespace dgap::schemas {

std::string index_set_text(const std::vector<int>& indices) {
  std::string text;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(indices[i]);
    if (last > i) text += "-" + std::to_string(indices[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<int>> parse_index_set(std::string_view text) {
  std::vector<int> indices;
  PresetReader reader(text);
  do {
    const std::optional<int> first = reader.number(kMaxIndex);
    if (!first || (!indices.empty() && *first <= indices.back())) return std::nullopt;
    std::optional<int> last = first;
    if (reader.take("-")) last = reader.number(kMaxIndex);
    if (!last || *last < *first) return std::nullopt;
    for (int i = *first; i <= *last; ++i) indices.push_back(i);
  } while (reader.take(","));
  return reader.done() ? std::optional(std::move(indices)) : std::nullopt;
}

}  // namespace dgap::schemas
