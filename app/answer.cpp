#include "app/answer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

std::string scalar(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "-";
  return value.dump();
}

bool is_plain_list(const Json& value) {
  return value.is_array() &&
         std::none_of(value.begin(), value.end(), [](const Json& v) { return v.is_structured(); });
}

std::string joined(const Json& list) {
  std::string out;
  for (const Json& item : list) out += (out.empty() ? "" : ", ") + scalar(item);
  return out.empty() ? "none" : out;
}

void write(const Json& object, std::size_t indent, std::string& out) {
  std::size_t width = 0;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_structured() || is_plain_list(value)) width = std::max(width, key.size());
  }
  for (const auto& [key, value] : object.items()) {
    out.append(indent, ' ');
    if (value.is_object() && !value.empty()) {
      out += key + ":\n";
      write(value, indent + 2, out);
    } else if (value.is_array() && !is_plain_list(value)) {
      out += key + ":\n";
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out += "\n";
        write(value[i], indent + 2, out);
      }
    } else {
      out += key + ": " + std::string(width - std::min(width, key.size()), ' ');
      out += (value.is_array() ? joined(value) : value.is_object() ? "none" : scalar(value)) + "\n";
    }
  }
}

}  // namespace

std::string as_text(const Json& answer) {
  std::string out;
  write(answer, 0, out);
  return out;
}

}  // namespace dgap::app
