#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/progress.hpp"

namespace dgap::app {

/// One JSON object per line, appended to <run>/log.jsonl: time, event, and what belongs to it.
class EventLog {
 public:
  explicit EventLog(const std::filesystem::path& file);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  /// `event` of `stage`; `done` of `total` where total > 0.
  void write(std::string_view event, std::string_view stage, std::string_view message,
             std::int64_t done = 0, std::int64_t total = 0);

 private:
  int fd_;
};

/// Rate over the last half minute, so that parts which a resumed run skips do not count for long.
class RateMeter {
 public:
  using Seconds = double;
  void add(Seconds now, std::int64_t done);
  double per_second() const;  // 0 while unknown

 private:
  struct Sample {
    Seconds time;
    std::int64_t done;
  };
  std::deque<Sample> samples_;
};

/// "collect [#####.....]  42 %  5040/12000 steps  812/s  ETA 0:08", at most `width` columns (0: no
/// limit, and no bar).
std::string progress_line(std::string_view stage, std::int64_t done, std::int64_t total,
                          std::string_view unit, double per_second, int width);

/// Seconds as "0:08", "1:02:03" or "3 d 04:05".
std::string duration(double seconds);

/// Progress to standard error, as a bar on a terminal and as a plain line every ten seconds
/// elsewhere, and to the event log.
class ConsoleProgress : public base::Progress {
 public:
  /// `log` may be null.
  ConsoleProgress(EventLog* log, bool terminal);
  ~ConsoleProgress() override;

  void begin(std::string_view stage, std::int64_t total, std::string_view unit) override;
  void advance(std::int64_t done) override;
  void end() override;
  void info(std::string_view message) override;
  void warn(std::string_view message) override;

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed() const;
  void erase_bar();
  void show(double now);

  EventLog* log_;
  bool terminal_, bar_shown_ = false, open_ = false;
  std::string stage_, unit_;
  std::int64_t total_ = 0, done_ = 0;
  Clock::time_point start_;
  double next_shown_ = 0, next_logged_ = 0;
  RateMeter rate_;
};

}  // namespace dgap::app
