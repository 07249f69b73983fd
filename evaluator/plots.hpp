#pragma once
#include <string>
#include <vector>

/// Small inline SVG plots for the report. Colours are CSS classes s0 .. s9, so that the page's light and
/// dark styles apply.
namespace dgap::evaluator {

struct Axis {
  std::string label;
  bool logarithmic = false;
  double low = 0, high = 1;
};

struct Line {
  std::string name;
  std::vector<double> x, y;
  int colour = 0;
  bool dashed = false;
};

/// A point on a line that the eye should find (K_b, the chosen tau), with a note unless empty.
struct Marker {
  double x = 0, y = 0;
  std::string text;
  int colour = 0;
};

std::string line_plot(const Axis& x, const Axis& y, const std::vector<Line>& lines,
                      const std::vector<Marker>& markers, const std::vector<double>& horizontal_rules = {});

/// Grouped bars, one group per name; values[series][group].
struct BarSeries {
  std::string name;
  std::vector<double> values;
  int colour = 0;
};
std::string bar_plot(const std::vector<std::string>& groups, const std::vector<BarSeries>& series, const Axis& y);

/// Text safe inside HTML and attributes.
std::string escape(const std::string& text);

}  // namespace dgap::evaluator
