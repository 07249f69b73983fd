#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.hpp"
#include "schemas/config/config.hpp"
#include "schemas/config/fields.hpp"

namespace dgap::schemas {
namespace {

/// Plain where every YAML version reads it as text, in double quotes otherwise.
std::string yaml_text(const std::string& text) {
  constexpr std::string_view kSpecial[] = {"null", "true", "false", "yes", "no",
                                           "on",   "off",  "y",     "n"};
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [&](char c) { return letter(c) ? static_cast<char>(c | 0x20) : c; });
  const bool plain =
      !text.empty() && (letter(text[0]) || text[0] == '/') &&
      std::all_of(text.begin(), text.end(),
                  [&](char c) {
                    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                           c == '/' || c == '-';
                  }) &&
      std::find(std::begin(kSpecial), std::end(kSpecial), lower) == std::end(kSpecial);
  return plain ? text : nlohmann::json(text).dump();
}

/// Shortest digits, spelled so that every YAML version reads a real number.
std::string yaml_real(double value) {
  std::string text = base::number(value);
  if (text.find('.') != std::string::npos) return text;
  return text.insert(std::min(text.find('e'), text.size()), ".0");
}

std::string yaml_value(int value) { return std::to_string(value); }
std::string yaml_value(std::int64_t value) { return std::to_string(value); }
std::string yaml_value(std::uint64_t value) { return std::to_string(value); }
std::string yaml_value(bool value) { return value ? "true" : "false"; }
std::string yaml_value(double value) { return yaml_real(value); }
std::string yaml_value(const std::string& value) { return yaml_text(value); }
template <class T>
std::string yaml_value(const std::vector<T>& values) {
  std::string out = "[";
  for (const T& value : values) out += (out.size() > 1 ? ", " : "") + yaml_value(value);
  return out + "]";
}

std::string yaml_value(const std::map<std::string, double>& values) {
  std::string out = "{";
  for (const auto& [name, value] : values) {
    out += (out.size() > 1 ? ", " : "") + yaml_text(name) + ": " + yaml_real(value);
  }
  return out + "}";
}

/// Lists of values that are YAML already.
std::string yaml_value(const std::map<std::string, std::vector<std::string>>& grid) {
  std::string out = "{";
  for (const auto& [key, texts] : grid) {
    std::string values;
    for (const std::string& text : texts) values += (values.empty() ? "" : ", ") + text;
    out += (out.size() > 1 ? ", " : "") + yaml_text(key) + ": [" + values + "]";
  }
  return out + "}";
}

/// Keys that change no result.
const std::vector<std::string_view> kChangeNothing{"run.threads", "run.dir", "model.memory_budget"};

/// Which keys are written: those at or under `only` (all, when empty), but none of `without`.
struct Selection {
  std::vector<std::string_view> only, without;

  bool has(std::string_view path) const {
    const auto covers = [&](std::string_view prefix) {
      return path.substr(0, prefix.size()) == prefix &&
             (path.size() == prefix.size() || path[prefix.size()] == '.');
    };
    return (only.empty() || std::any_of(only.begin(), only.end(), covers)) &&
           std::none_of(without.begin(), without.end(), covers);
  }
};

/// The visitor that writes. A section without selected keys leaves no trace.
class ConfigWriter {
 public:
  explicit ConfigWriter(Selection selection) : selection_(std::move(selection)) {}
  std::string take() { return std::move(out_); }

  template <class T, class Rule>
  void field(std::string_view key, const T& value, const Rule&, std::string_view) {
    if (selection_.has(path_ + std::string(key))) line(key, " " + yaml_value(value));
  }

  template <class Body>
  void section(std::string_view key, std::string_view, const Body& body) {
    const std::size_t before = out_.size(), path_before = path_.size();
    line(key, "");
    const std::size_t heading = out_.size();
    path_ += std::string(key) + ".";
    indent_ += 2;
    body();
    indent_ -= 2;
    path_.resize(path_before);
    if (out_.size() == heading) out_.resize(before);
  }

  void sites(std::string_view key, const SitesConfig& sites, std::string_view meaning) {
    section(key, meaning, [&] {
      field("train", sites.train, kSitesPerBook, "");
      field("validation", sites.validation, kSitesPerBook, "");
      field("test", sites.test, kSitesPerBook, "");
    });
  }

  void precisions(std::string_view key, const std::vector<Scheme>& schemes, std::string_view) {
    if (!selection_.has(path_ + std::string(key))) return;
    line(key, "");
    for (const Scheme& scheme : schemes) {
      out_ += "  - name: " + yaml_text(scheme.name) + "\n";
      nlohmann::json object = to_json(scheme);
      object.erase("name");
      indent_ = 4;
      write_object(object);
      indent_ = 0;
    }
  }

  void later(std::string_view, std::string_view) {}

 private:
  void line(std::string_view key, const std::string& value) {
    out_.append(indent_, ' ').append(key) += ":" + value + "\n";
  }

  void write_object(const nlohmann::json& object) {
    for (const auto& [key, value] : object.items()) {
      if (value.is_object()) {
        line(key, "");
        indent_ += 2;
        write_object(value);
        indent_ -= 2;
      } else if (value.is_array() && !value.front().is_object()) {
        line(key, " " + value.dump());
      } else if (value.is_array()) {
        line(key, "");
        for (const nlohmann::json& item : value) write_item(item);
      } else if (value.is_string()) {
        line(key, " " + yaml_text(value.get<std::string>()));
      } else if (value.is_number_float()) {
        line(key, " " + yaml_real(value.get<double>()));
      } else {
        line(key, " " + value.dump());
      }
    }
  }

  /// An object as an item of a list.
  void write_item(const nlohmann::json& object) {
    const std::size_t begin = out_.size();
    indent_ += 4;
    write_object(object);
    indent_ -= 4;
    out_[begin + indent_ + 2] = '-';
  }

  Selection selection_;
  std::string out_, path_;
  std::size_t indent_ = 0;
};

std::string write(const Config& config, Selection selection) {
  ConfigWriter writer(std::move(selection));
  describe_config(writer, config);
  return writer.take();
}

}  // namespace

std::string to_yaml(const Config& config) { return write(config, {}); }

std::string to_trace_yaml(const Config& config) { return write(config, {{}, kChangeNothing}); }

std::string to_stage_yaml(const Config& config, std::string_view stage) {
  struct Dependence {
    std::string_view stage;
    std::vector<std::string_view> keys;
  };
  // Every stage depends on what those before it depend on, and on its own keys.
  const Dependence dependences[] = {
      {"allocate", {"version", "run.seed", "model", "corpus", "precisions", "allocation"}},
      {"collect", {"calibration", "decode", "trace", "window.cap"}},
      {"calibrate", {"window", "labels"}},
      {"train", {"detector", "corrector", "training"}},
      {"threshold", {"threshold"}},
      {"export", {}},
      {"evaluate", {"evaluate"}},
      {"report", {"run.name"}},
  };
  Selection selection{{}, kChangeNothing};
  for (const Dependence& dependence : dependences) {
    selection.only.insert(selection.only.end(), dependence.keys.begin(), dependence.keys.end());
    if (dependence.stage == stage) return write(config, std::move(selection));
  }
  throw std::invalid_argument("no stage is called " + std::string(stage));
}

}  // namespace dgap::schemas
