#include "app/progress.hpp"
#include "helpers.hpp"

namespace dgap::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Duration, Spelling) {
  EXPECT_EQ(duration(0.4), "0:00");
  EXPECT_EQ(duration(59.6), "1:00");
  EXPECT_EQ(duration(3725), "1:02:05");
  EXPECT_EQ(duration(86400 * 3 + 4 * 3600 + 300), "3 d 04:05");
  EXPECT_EQ(duration(-1), "0:00");
}

TEST(ProgressLine, BarRateAndEta) {
  EXPECT_EQ(progress_line("collect", 5040, 12000, "steps", 812.4, 70),
            "collect [#######...........]  42 %  5040/12000 steps  812/s  ETA 0:09");
  EXPECT_EQ(progress_line("collect", 5040, 12000, "steps", 0, 0),
            "collect  42 %  5040/12000 steps  -  ETA -");
  EXPECT_EQ(progress_line("x", 1, 3, "units", 0.25, 0), "x  33 %  1/3 units  0.25/s  ETA 0:08");
  EXPECT_THAT(progress_line("collect", 12000, 12000, "steps", 1, 80), HasSubstr("100 %"));
  EXPECT_THAT(progress_line("collect", 0, 0, "steps", 1, 80), HasSubstr("0 %"));
  EXPECT_THAT(progress_line("collect", 20, 10, "steps", 1, 80), HasSubstr("100 %"));
  for (int width = 10; width < 200; ++width) {
    EXPECT_LT(progress_line("collect", 5040, 12000, "steps", 812.4, width).size(),
              static_cast<std::size_t>(width));
  }
}

TEST(RateMeter, ForgetsOldRates) {
  RateMeter meter;
  EXPECT_EQ(meter.per_second(), 0);
  meter.add(0, 0);
  meter.add(1, 1'000'000);  // parts that were there already
  for (int second = 2; second <= 60; ++second) meter.add(second, 1'000'000 + 10 * (second - 1));
  EXPECT_DOUBLE_EQ(meter.per_second(), 10);
}

TEST(ConsoleProgress, PlainLinesElsewhereThanOnATerminal) {
  ::testing::internal::CaptureStderr();
  {
    ConsoleProgress progress(nullptr, false);
    progress.begin("collect", 1000, "steps");
    for (int i = 0; i < 1000; ++i) progress.advance(1);
    progress.warn("careful");
    progress.end();
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, HasSubstr("dgap: warning: careful\n"));
  EXPECT_THAT(text, HasSubstr("collect: 1000 steps in 0:00\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(ConsoleProgress, ABarOnATerminalLeavesNoTrace) {
  ::testing::internal::CaptureStderr();
  {
    ConsoleProgress progress(nullptr, true);
    progress.begin("collect", 10, "steps");
    progress.advance(5);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kcollect ["));
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace dgap::app
