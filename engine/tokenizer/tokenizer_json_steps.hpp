#pragma once
// Parts of a tokenizer.json around its model. Internal to tokenizer_json.cpp.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {

/// A member of an object: nullptr where it is missing or null.
const nlohmann::json* optional_member(schemas::JsonObject& object, std::string_view key);
bool flag_or(schemas::JsonObject& object, std::string_view key, bool otherwise);
/// UsageError "<file>: <path> is '<value>', which is not supported; supported are ...".
[[noreturn]] void unsupported(const std::string& file, const std::string& path,
                              const std::string& value, const std::string& supported);

struct JsonPlace {
  std::string file, path;
};

std::vector<NormalizerStep> read_normalizer(const nlohmann::json& value, const JsonPlace& place);

struct PreTokenizerJson {
  bool byte_level = false;
  std::optional<bool> prefix_space;
  Vocabulary::SpaceMarks space_marks = Vocabulary::SpaceMarks::none;
  std::vector<SplitStep> split;
};
PreTokenizerJson read_pre_tokenizer(const nlohmann::json& value, const JsonPlace& place);

struct DecoderJson {
  bool byte_level = false;
  bool marks_to_spaces = false, byte_fallback = false, strips_space = false;
};
DecoderJson read_decoder(const nlohmann::json& value, const JsonPlace& place);

/// The token in front of a single sequence.
std::optional<std::int32_t> read_post_processor(const nlohmann::json& value,
                                                const JsonPlace& place);

}  // namespace dgap::engine
