#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dgap::app {

/// An answer as text: "key: value" lines, mappings indented below their key, lists of plain values
/// in one line.
std::string as_text(const nlohmann::ordered_json& answer);

}  // namespace dgap::app
