#include "evaluator/plots.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dgap::evaluator {
namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr double kLeft = 64, kRight = 16, kTop = 12, kBottom = 46;

std::string text(double value, int digits = 2) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

/// Three significant digits, without a useless exponent.
std::string tick_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

double scaled(const Axis& axis, double value) {
  if (axis.logarithmic) {
    const double v = std::clamp(value, axis.low, axis.high);
    return std::log(v / axis.low) / std::log(axis.high / axis.low);
  }
  return (std::clamp(value, axis.low, axis.high) - axis.low) / (axis.high - axis.low);
}

double pixel_x(const Axis& axis, double value) { return kLeft + scaled(axis, value) * (kWidth - kLeft - kRight); }
double pixel_y(const Axis& axis, double value) {
  return kHeight - kBottom - scaled(axis, value) * (kHeight - kTop - kBottom);
}

/// Round numbers between the ends: decades (and 2, 5) on a logarithmic axis, about five steps otherwise.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> list;
  if (axis.logarithmic) {
    const bool few = axis.high / axis.low < 2000;
    for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10) {
      for (const double m : {1.0, 2.0, 5.0}) {
        const double v = decade * m;
        if (v >= axis.low * 0.999 && v <= axis.high * 1.001 && (few || m == 1.0)) list.push_back(v);
      }
    }
    return list;
  }
  const double raw = (axis.high - axis.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power;
  for (const double m : {2.0, 2.5, 5.0, 10.0}) {
    if (step < raw * 0.999) step = power * m;
  }
  for (double v = std::ceil(axis.low / step) * step; v <= axis.high + step * 1e-6; v += step) list.push_back(v);
  return list;
}

std::string open_svg(const std::string& title) {
  return "<svg viewBox=\"0 0 640 320\" role=\"img\" aria-label=\"" + escape(title) + "\">";
}

std::string y_axis(const Axis& y) {
  std::string out;
  for (const double v : ticks(y)) {
    const std::string at = text(pixel_y(y, v));
    out += "<line class=\"grid\" x1=\"" + text(kLeft) + "\" x2=\"" + text(kWidth - kRight) + "\" y1=\"" + at +
           "\" y2=\"" + at + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" + text(kLeft - 6) + "\" y=\"" +
           text(pixel_y(y, v) + 4) + "\">" + tick_text(v) + "</text>";
  }
  return out + "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(14," +
         text((kTop + kHeight - kBottom) / 2) + ") rotate(-90)\">" + escape(y.label) + "</text>";
}

std::string x_axis(const Axis& x) {
  std::string out;
  for (const double v : ticks(x)) {
    const std::string at = text(pixel_x(x, v));
    out += "<line class=\"grid\" y1=\"" + text(kTop) + "\" y2=\"" + text(kHeight - kBottom) + "\" x1=\"" + at +
           "\" x2=\"" + at + "\"/><text class=\"tick\" text-anchor=\"middle\" x=\"" + at + "\" y=\"" +
           text(kHeight - kBottom + 16) + "\">" + tick_text(v) + "</text>";
  }
  return out + "<text class=\"label\" text-anchor=\"middle\" x=\"" + text((kLeft + kWidth - kRight) / 2) +
         "\" y=\"" + text(kHeight - 8) + "\">" + escape(x.label) + "</text>";
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries) {
  std::string out = "<div class=\"legend\">";
  for (const auto& [name, colour] : entries) {
    out += "<span><i class=\"b" + std::to_string(colour % 10) + "\"></i>" + escape(name) + "</span>";
  }
  return out + "</div>";
}

}  // namespace

std::string escape(const std::string& raw) {
  std::string out;
  for (const char c : raw) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string line_plot(const Axis& x, const Axis& y, const std::vector<Line>& lines,
                      const std::vector<Marker>& markers, const std::vector<double>& horizontal_rules) {
  std::string out = open_svg(y.label + " against " + x.label) + x_axis(x) + y_axis(y);
  for (const double rule : horizontal_rules) {
    const std::string at = text(pixel_y(y, rule));
    out += "<line class=\"rule\" x1=\"" + text(kLeft) + "\" x2=\"" + text(kWidth - kRight) + "\" y1=\"" + at +
           "\" y2=\"" + at + "\"/>";
  }
  std::vector<std::pair<std::string, int>> names;
  for (const Line& line : lines) {
    std::string points;
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      if (!std::isfinite(line.x[i]) || !std::isfinite(line.y[i])) continue;
      points += text(pixel_x(x, line.x[i]), 1) + "," + text(pixel_y(y, line.y[i]), 1) + " ";
    }
    out += "<polyline class=\"s" + std::to_string(line.colour % 10) + (line.dashed ? " dashed" : "") +
           "\" points=\"" + points + "\"/>";
    if (!line.name.empty()) names.emplace_back(line.name, line.colour);
  }
  for (const Marker& marker : markers) {
    const double at = pixel_x(x, marker.x);
    const bool left = at > kWidth - 140;
    out += "<circle class=\"m" + std::to_string(marker.colour % 10) + "\" r=\"4.5\" cx=\"" + text(at) + "\" cy=\"" +
           text(pixel_y(y, marker.y)) + "\"/>";
    if (marker.text.empty()) continue;
    out += "<text class=\"note\" text-anchor=\"" + std::string(left ? "end" : "start") + "\" x=\"" +
           text(at + (left ? -7 : 7)) + "\" y=\"" + text(pixel_y(y, marker.y) + 13) + "\">" + escape(marker.text) +
           "</text>";
  }
  return out + "</svg>" + legend(names);
}

std::string bar_plot(const std::vector<std::string>& groups, const std::vector<BarSeries>& series, const Axis& y) {
  std::string out = open_svg(y.label) + y_axis(y);
  const double plot = kWidth - kLeft - kRight;
  const double group_width = plot / static_cast<double>(std::max<std::size_t>(1, groups.size()));
  const double bar = group_width * 0.8 / static_cast<double>(std::max<std::size_t>(1, series.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double left = kLeft + group_width * (static_cast<double>(g) + 0.1);
    for (std::size_t s = 0; s < series.size(); ++s) {
      const double value = series[s].values[g];
      if (!std::isfinite(value)) continue;
      const double top = pixel_y(y, value);
      out += "<rect class=\"b" + std::to_string(series[s].colour % 10) + "\" x=\"" +
             text(left + bar * static_cast<double>(s)) + "\" y=\"" + text(top) + "\" width=\"" + text(bar * 0.92) +
             "\" height=\"" + text(std::max(0.0, kHeight - kBottom - top)) + "\"><title>" +
             escape(groups[g] + ", " + series[s].name + ": ") + tick_text(value) + "</title></rect>";
    }
    out += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + text(left + group_width * 0.4) + "\" y=\"" +
           text(kHeight - kBottom + 16) + "\">" + escape(groups[g]) + "</text>";
  }
  std::vector<std::pair<std::string, int>> names;
  for (const BarSeries& s : series) names.emplace_back(s.name, s.colour);
  return out + "</svg>" + legend(names);
}

}  // namespace dgap::evaluator
