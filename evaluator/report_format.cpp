#include "evaluator/report_format.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace dgap::evaluator {

using nlohmann::json;

double at(const json& object, const std::string& path) {
  const auto pointer = json::json_pointer("/" + path);
  if (!object.contains(pointer) || !object.at(pointer).is_number()) return std::nan("");
  return object.at(pointer).get<double>();
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string significant(double value) {
  if (!std::isfinite(value)) return "–";
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, std::abs(value) < 1e-3 && value != 0 ? "%.1e" : "%.3g", value);
  return buffer;
}

std::string percent(double share, int digits) {
  return std::isfinite(share) ? fixed(100 * share, digits) + "&nbsp;%" : "–";
}

/// "0.297 [0.285, 0.310]" as a title on the value.
std::string with_interval(const json& entry, const json& interval, const std::string& path,
                          std::string (*format)(double)) {
  std::string title;
  const auto pointer = json::json_pointer("/" + path);
  if (interval.contains(pointer) && interval.at(pointer).is_array()) {
    const json& ends = interval.at(pointer);
    if (ends.size() == 2 && ends[0].is_number() && ends[1].is_number()) {
      title = " title=\"95 % interval " + format(ends[0].get<double>()) + " to " + format(ends[1].get<double>()) + "\"";
    }
  }
  return "<td" + title + ">" + format(at(entry, path)) + "</td>";
}

std::string one_digit(double v) { return fixed(v, 1); }
std::string three_digits(double v) { return fixed(v, 3); }
std::string share(double v) { return percent(v); }

std::string row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += std::string("<") + tag + ">" + cell + "</" + tag + ">";
  return out + "</tr>";
}

}  // namespace dgap::evaluator
