#include "engine/tokenizer/tokenizer_json_steps.hpp"

#include <limits>

#include "base/error.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

using nlohmann::json;
using schemas::JsonObject;

JsonPlace inside(const JsonPlace& place, const std::string& key) {
  return {place.file, place.path + "." + key};
}

JsonObject object_at(const json& value, const JsonPlace& place) {
  return {value, place.file, place.path};
}

/// The member `key` of a Sequence, whose members `each` reads.
template <class Each>
void for_each_member(JsonObject& object, std::string_view key, const JsonPlace& place,
                     const Each& each) {
  const json& list = object.any(key);
  if (!list.is_array()) object.fail(key, "is not an array");
  object.refuse_others();
  for (std::size_t i = 0; i < list.size(); ++i) {
    each(list[i], inside(place, std::string(key) + "[" + std::to_string(i) + "]"));
  }
}

struct Pattern {
  std::string text;
  bool literal = false;
};

/// {"String": text} or {"Regex": expression}.
Pattern read_pattern(JsonObject& parent) {
  JsonObject object = parent.object("pattern");
  Pattern pattern;
  pattern.literal = object.value().contains("String");
  pattern.text = object.text(pattern.literal ? "String" : "Regex", 1 << 16);
  object.refuse_others();
  if (pattern.text.empty()) parent.fail("pattern", "is empty");
  return pattern;
}

class NormalizerReader {
 public:
  std::vector<NormalizerStep> take() { return std::move(steps_); }

  void read(const json& value, const JsonPlace& place) {
    JsonObject object = object_at(value, place);
    const std::string type = object.text("type");
    if (type == "Sequence") {
      for_each_member(object, "normalizers", place,
                      [this](const json& v, const JsonPlace& p) { read(v, p); });
    } else if (type == "NFC") {
      steps_.push_back({NormalizerStep::Kind::nfc, {}, {}});
    } else if (type == "Prepend") {
      steps_.push_back({NormalizerStep::Kind::prepend, {}, object.text("prepend")});
    } else if (type == "Replace") {
      Pattern pattern = read_pattern(object);
      if (!pattern.literal) {
        unsupported(place.file, place.path + ".pattern.Regex", pattern.text, "String");
      }
      steps_.push_back({NormalizerStep::Kind::replace, pattern.text, object.text("content")});
    } else {
      unsupported(place.file, place.path + ".type", type, "NFC, Prepend, Replace and Sequence");
    }
    object.refuse_others();
  }

 private:
  std::vector<NormalizerStep> steps_;
};

class PreTokenizerReader {
 public:
  PreTokenizerJson take() { return std::move(out_); }

  void read(const json& value, const JsonPlace& place) {
    JsonObject object = object_at(value, place);
    const std::string type = object.text("type");
    if (type == "Sequence") {
      for_each_member(object, "pretokenizers", place,
                      [this](const json& v, const JsonPlace& p) { read(v, p); });
      return;
    }
    if (out_.byte_level) {
      unsupported(place.file, place.path + ".type", type, "nothing after ByteLevel");
    }
    if (type == "ByteLevel") {
      byte_level(object);
    } else if (type == "Split") {
      split(object);
    } else if (type == "Digits") {
      SplitStep step;
      step.pattern = patterns::kDigit;
      if (!flag_or(object, "individual_digits", false)) {
        step.behavior = SplitStep::Behavior::contiguous;
      }
      out_.split.push_back(step);
    } else if (type == "Metaspace") {
      metaspace(object, place);
    } else {
      unsupported(place.file, place.path + ".type", type,
                  "ByteLevel, Split, Digits, Metaspace and Sequence");
    }
    object.refuse_others();
  }

 private:
  void byte_level(JsonObject& object) {
    SplitStep step;
    step.prefix_space = flag_or(object, "add_prefix_space", true);
    flag_or(object, "trim_offsets", true);  // of places in the text, which nobody asks for
    if (flag_or(object, "use_regex", true)) step.pattern = patterns::kGpt2;
    if (step.prefix_space || !step.pattern.empty()) out_.split.push_back(step);
    out_.byte_level = true;
    out_.prefix_space = step.prefix_space;
  }

  void split(JsonObject& object) {
    using Behavior = SplitStep::Behavior;
    const Pattern pattern = read_pattern(object);
    const std::string behavior = object.choice(
        "behavior", {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"});
    SplitStep step;
    step.pattern = pattern.text;
    step.literal = pattern.literal;
    step.behavior = behavior == "Isolated"             ? Behavior::isolated
                    : behavior == "Removed"            ? Behavior::removed
                    : behavior == "Contiguous"         ? Behavior::contiguous
                    : behavior == "MergedWithPrevious" ? Behavior::merged_with_previous
                                                       : Behavior::merged_with_next;
    step.invert = object.boolean("invert");
    out_.split.push_back(step);
  }

  void metaspace(JsonObject& object, const JsonPlace& place) {
    using Marks = Vocabulary::SpaceMarks;
    if (!out_.split.empty() || out_.space_marks != Marks::none) {
      unsupported(place.file, place.path + ".type", "Metaspace", "Metaspace before other steps");
    }
    if (const std::string mark = object.text("replacement"); mark != kSpaceMark) {
      unsupported(place.file, place.path + ".replacement", mark, std::string(kSpaceMark));
    }
    std::string scheme = "always";
    if (object.value().contains("prepend_scheme")) {
      scheme = object.choice("prepend_scheme", {"always", "first", "never"});
    } else if (!flag_or(object, "add_prefix_space", true)) {
      scheme = "never";
    }
    out_.space_marks = scheme == "always"  ? Marks::replace_and_prepend
                       : scheme == "first" ? Marks::replace_and_prepend_first
                                           : Marks::replace;
    if (!flag_or(object, "split", true)) return;
    SplitStep step;
    step.pattern = kSpaceMark;
    step.literal = true;
    step.behavior = SplitStep::Behavior::merged_with_next;
    out_.split.push_back(step);
  }

  PreTokenizerJson out_;
};

class DecoderReader {
 public:
  DecoderJson take() const { return out_; }

  void read(const json& value, const JsonPlace& place) {
    JsonObject object = object_at(value, place);
    const std::string type = object.text("type");
    if (type == "Sequence") {
      for_each_member(object, "decoders", place,
                      [this](const json& v, const JsonPlace& p) { read(v, p); });
      return;
    }
    if (type == "ByteLevel") {
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
        flag_or(object, key, true);  // no meaning in a decoder
      }
      out_.byte_level = true;
    } else if (type == "Replace") {
      const Pattern pattern = read_pattern(object);
      const std::string content = object.text("content");
      if (!pattern.literal || pattern.text != kSpaceMark || content != " ") {
        unsupported(place.file, place.path, pattern.text + "' by '" + content,
                    "\xe2\x96\x81 by a space");
      }
      out_.marks_to_spaces = true;
    } else if (type == "ByteFallback") {
      out_.byte_fallback = true;
    } else if (type == "Fuse") {
      fused_ = true;
    } else if (type == "Strip") {
      strip(object, place);
    } else if (type == "Metaspace") {
      metaspace(object, place);
    } else {
      unsupported(place.file, place.path + ".type", type,
                  "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace and Sequence");
    }
    object.refuse_others();
  }

 private:
  void strip(JsonObject& object, const JsonPlace& place) {
    const std::string content = object.text("content");
    const std::int64_t start = object.integer("start", 0, 1 << 20);
    const std::int64_t stop = object.integer("stop", 0, 1 << 20);
    if (content != " " || start > 1 || stop != 0 || !fused_) {
      unsupported(place.file, place.path,
                  content + "' at " + std::to_string(start) + ", " + std::to_string(stop),
                  "one space at the start, after Fuse");
    }
    out_.strips_space = start == 1;
  }

  void metaspace(JsonObject& object, const JsonPlace& place) {
    if (const std::string mark = object.text("replacement"); mark != kSpaceMark) {
      unsupported(place.file, place.path + ".replacement", mark, std::string(kSpaceMark));
    }
    flag_or(object, "split", true);
    bool prepends = flag_or(object, "add_prefix_space", true);
    if (object.value().contains("prepend_scheme")) {
      prepends = object.choice("prepend_scheme", {"always", "first", "never"}) != "never";
    }
    out_.marks_to_spaces = true;
    out_.strips_space = prepends;
  }

  DecoderJson out_;
  bool fused_ = false;
};

/// `single` of a TemplateProcessing: [special tokens, sequence A, special tokens].
std::optional<std::int32_t> read_template(JsonObject& object, const JsonPlace& place) {
  std::optional<std::string> first;
  bool after_sequence = false;
  const json& single = object.any("single");
  if (!single.is_array()) object.fail("single", "is not an array");
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonPlace at = inside(place, "single[" + std::to_string(i) + "]");
    JsonObject item = object_at(single[i], at);
    if (item.value().contains("Sequence")) {
      item.object("Sequence").text("id");
      after_sequence = true;
    } else if (std::string name = item.object("SpecialToken").text("id"); !after_sequence) {
      if (first) unsupported(at.file, at.path, name, "one token before the sequence");
      first = std::move(name);
    }
    item.refuse_others();
  }
  object.any("pair");  // of two sequences, which nobody encodes
  JsonObject tokens = object.object("special_tokens");
  if (!first) return {};
  JsonObject token = tokens.object(*first);
  const json& ids = token.any("ids");
  if (!ids.is_array() || ids.size() != 1 || !ids[0].is_number_unsigned() ||
      ids[0].get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
    token.fail("ids", "is not one token id");
  }
  return ids[0].get<std::int32_t>();
}

}  // namespace

void unsupported(const std::string& file, const std::string& path, const std::string& value,
                 const std::string& supported) {
  throw base::UsageError(file + ": " + path + " is '" + value.substr(0, 200) +
                         "', which is not supported; supported: " + supported);
}

const json* optional_member(JsonObject& object, std::string_view key) {
  if (!object.value().contains(std::string(key))) return nullptr;
  const json& value = object.any(key);
  return value.is_null() ? nullptr : &value;
}

bool flag_or(JsonObject& object, std::string_view key, bool otherwise) {
  return object.value().contains(std::string(key)) ? object.boolean(key) : otherwise;
}

std::vector<NormalizerStep> read_normalizer(const json& value, const JsonPlace& place) {
  NormalizerReader reader;
  if (!value.is_null()) reader.read(value, place);
  return reader.take();
}

PreTokenizerJson read_pre_tokenizer(const json& value, const JsonPlace& place) {
  PreTokenizerReader reader;
  if (!value.is_null()) reader.read(value, place);
  return reader.take();
}

DecoderJson read_decoder(const json& value, const JsonPlace& place) {
  DecoderReader reader;
  if (value.is_null()) {
    unsupported(place.file, place.path, "null", "a decoder that gives back the text");
  }
  reader.read(value, place);
  return reader.take();
}

std::optional<std::int32_t> read_post_processor(const json& value, const JsonPlace& place) {
  std::optional<std::int32_t> bos;
  if (value.is_null()) return bos;
  JsonObject object = object_at(value, place);
  const std::string type = object.text("type");
  if (type == "Sequence") {
    for_each_member(object, "processors", place, [&](const json& v, const JsonPlace& p) {
      const std::optional<std::int32_t> found = read_post_processor(v, p);
      if (found && bos) unsupported(p.file, p.path, std::to_string(*found), "one template");
      if (found) bos = found;
    });
  } else if (type == "TemplateProcessing") {
    bos = read_template(object, place);
  } else if (type == "ByteLevel") {
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      flag_or(object, key, true);  // of places in the text
    }
  } else {
    unsupported(place.file, place.path + ".type", type,
                "TemplateProcessing, ByteLevel and Sequence");
  }
  object.refuse_others();
  return bos;
}

}  // namespace dgap::engine
