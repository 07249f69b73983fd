#include "calibrator/allocation/plots.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace dgap::calibrator {
namespace {

using schemas::AllocationPoint;

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
std::string pixels(double value) { return format("%.1f", value); }

/// An SVG document being written.
class Svg {
 public:
  Svg(double width, double height) {
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + pixels(width) + " " +
           pixels(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n" +
           "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  }
  void text(double x, double y, const std::string& words, const char* anchor = "start") {
    out_ += "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" text-anchor=\"" + anchor +
            "\" fill=\"#333\">" + words + "</text>\n";
  }
  void cell(double x, double y, double w, double h, const std::string& fill,
            const std::string& title) {
    out_ += "<rect x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" width=\"" + pixels(w) +
            "\" height=\"" + pixels(h) + "\" fill=\"" + fill + "\" stroke=\"#ddd\"><title>" +
            title + "</title></rect>\n";
  }
  void line(const std::vector<std::pair<double, double>>& points, const char* colour) {
    out_ += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) +
            "\" points=\"";
    for (const auto& [x, y] : points) out_ += pixels(x) + "," + pixels(y) + " ";
    out_ += "\"/>\n";
  }
  void dot(double x, double y, double radius, const char* colour) {
    out_ += "<circle cx=\"" + pixels(x) + "\" cy=\"" + pixels(y) + "\" r=\"" + pixels(radius) +
            "\" fill=\"" + colour + "\"/>\n";
  }
  std::string take() { return std::move(out_) + "</svg>\n"; }

 private:
  std::string out_;
};

/// White at 0, orange up to the largest, blue where a change does good.
std::string shade(double value, double largest) {
  const double share = largest > 0 ? std::clamp(value / largest, -1.0, 1.0) : 0;
  const auto mix = [&](int full) {
    return std::to_string(static_cast<int>(std::lround(255 + std::abs(share) * (full - 255))));
  };
  return share >= 0 ? "rgb(" + mix(213) + "," + mix(94) + "," + mix(0) + ")"
                    : "rgb(" + mix(0) + "," + mix(114) + "," + mix(178) + ")";
}

constexpr double kCell = 18, kLeft = 60, kGap = 56;

void heat_map(Svg& svg, double top, const std::string& title, const schemas::HeadTable& table) {
  double largest = 0;
  for (const auto& row : table) {
    for (const double v : row) largest = std::max(largest, std::abs(v));
  }
  svg.text(kLeft, top - 8, title + " (darkest: " + format("%.3g", largest) + " nat)");
  for (std::size_t layer = 0; layer < table.size(); ++layer) {
    const double x = kLeft + kCell * static_cast<double>(layer);
    for (std::size_t head = 0; head < table[layer].size(); ++head) {
      svg.cell(x, top + kCell * static_cast<double>(head), kCell, kCell,
               shade(table[layer][head], largest),
               "layer " + std::to_string(layer) + ", head " + std::to_string(head) + ": " +
                   format("%.4g", table[layer][head]));
    }
    if (layer % 5 == 0) {
      svg.text(x + kCell / 2, top + kCell * static_cast<double>(table[layer].size()) + 13,
               std::to_string(layer), "middle");
    }
  }
  for (std::size_t head = 0; !table.empty() && head < table.front().size(); ++head)
    svg.text(kLeft - 6, top + kCell * (static_cast<double>(head) + 0.7), std::to_string(head),
             "end");
}

/// One panel of curve, chosen point and control.
struct Panel {
  const char* title;
  std::function<double(const schemas::AllocationLoss&)> of;
  double high;
};

void draw(Svg& svg, double top, const Panel& panel, const schemas::AllocationResults& r) {
  constexpr double kWidth = 560, kHeight = 150;
  const double low = r.curve.front().bits, span = std::max(r.curve.back().bits - low, 1e-9);
  const auto x = [&](const AllocationPoint& p) { return kLeft + kWidth * (p.bits - low) / span; };
  const auto y = [&](double value) {
    return top + kHeight * (1 - std::clamp(value / panel.high, 0.0, 1.0));
  };
  svg.text(kLeft, top - 8, panel.title);
  for (const double share : {0.0, 0.5, 1.0}) {
    svg.line({{kLeft, y(share * panel.high)}, {kLeft + kWidth, y(share * panel.high)}}, "#ddd");
    svg.text(kLeft - 6, y(share * panel.high) + 4, format("%.3g", share * panel.high), "end");
  }
  std::vector<std::pair<double, double>> points;
  for (const AllocationPoint& p : r.curve) points.emplace_back(x(p), y(panel.of(p.loss)));
  svg.line(points, "#0072b2");
  for (const AllocationPoint& p : r.random) svg.dot(x(p), y(panel.of(p.loss)), 3, "#8a94a0");
  svg.dot(x(r.allocated), y(panel.of(r.allocated.loss)), 5, "#d55e00");
  svg.text(kLeft, top + kHeight + 14, format("%.3f", low));
  svg.text(kLeft + kWidth, top + kHeight + 14, format("%.3f bits per element", low + span), "end");
}

}  // namespace

std::string plot(const schemas::Sensitivity& s) {
  const double block = kCell * s.kv_heads + kGap;
  Svg svg(kLeft + kCell * s.layers + 20, 4.0 * block * static_cast<double>(s.tensors.size()) + 20);
  double top = 34;
  for (const auto& [name, t] : s.tensors) {
    const std::pair<std::string, const schemas::HeadTable*> maps[] = {
        {"quantised alone: answers", &t.cost_nll},
        {"quantised alone: book KL", &t.cost_kl},
        {"spared alone: answers", &t.gain_nll},
        {"spared alone: book KL", &t.gain_kl}};
    for (const auto& [title, table] : maps) {
      heat_map(svg, top, name + ", " + title, *table);
      top += block;
    }
  }
  return svg.take();
}

std::string plot(const schemas::AllocationResults& results) {
  Svg svg(680, 640);
  double kl = results.quantized.loss.kl;
  for (const AllocationPoint& p : results.curve) kl = std::max(kl, p.loss.kl);
  const Panel panels[] = {
      {"share of answer tokens right (orange: chosen, grey: random)",
       [](const schemas::AllocationLoss& l) { return l.token; }, 1},
      {"share of whole answers right", [](const schemas::AllocationLoss& l) { return l.exact; }, 1},
      {"KL on book text, nat per step", [](const schemas::AllocationLoss& l) { return l.kl; },
       kl > 0 ? kl : 1}};
  double top = 34;
  for (const Panel& panel : panels) {
    draw(svg, top, panel, results);
    top += 205;
  }
  return svg.take();
}

}  // namespace dgap::calibrator
