#include "evaluator/plots.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dgap::evaluator {
namespace {

TEST(Plots, EscapeMarkup) { EXPECT_EQ(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;"); }

TEST(Plots, ScaleOntoTheAxes) {
  const std::string svg = line_plot({"K", true, 1, 100}, {"c", false, 0, 1}, {{"P", {1, 10, 100}, {0, 0.5, 1}, 3}}, {});
  EXPECT_NE(svg.find("points=\"64.0,274.0 344.0,143.0 624.0,12.0 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find("class=\"s3\""), std::string::npos);
}

TEST(Plots, LeaveOutWhatIsNotFinite) {
  const std::string svg = line_plot({"x", false, 0, 1}, {"y", false, 0, 1}, {{"P", {0, 0.5, 1}, {0, std::nan(""), 1}, 0}}, {});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::string bars = bar_plot({"a<b"}, {{"s", {std::nan("")}, 0}}, {"y", true, 0.1, 1});
  EXPECT_EQ(bars.find("nan"), std::string::npos);
  EXPECT_NE(bars.find("a&lt;b"), std::string::npos);
}

}  // namespace
}  // namespace dgap::evaluator
