#include "app/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "app/messages.hpp"
#include "base/error.hpp"

namespace dgap::app {
namespace {

constexpr double kRedraw = 0.1, kPlainLine = 10.0, kLogLine = 30.0;  // seconds between two of them
constexpr double kRateWindow = 30.0;

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, milliseconds % 1000);
}

std::string rate_text(double per_second) {
  if (per_second <= 0) return "-";
  return fmt::format("{}/s", per_second < 10 ? fmt::format("{:.2g}", per_second)
                                             : fmt::format("{:.0f}", per_second));
}

}  // namespace

EventLog::EventLog(const std::filesystem::path& file)
    : fd_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) base::throw_errno(file.string(), "cannot be opened");
}

EventLog::~EventLog() { ::close(fd_); }

void EventLog::write(std::string_view event, std::string_view stage, std::string_view message,
                     std::int64_t done, std::int64_t total) {
  nlohmann::ordered_json line = {{"time", utc_now()}, {"event", event}};
  if (!stage.empty()) line["stage"] = stage;
  if (!message.empty()) line["message"] = message;
  if (total > 0) line["done"] = done, line["total"] = total;
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // One write per line, so that lines of several processes do not mix; a full disk must not end a
  // run.
  [[maybe_unused]] const ssize_t written = ::write(fd_, text.data(), text.size());
}

void RateMeter::add(Seconds now, std::int64_t done) {
  if (!samples_.empty() && now - samples_.back().time < 0.5) return;
  samples_.push_back({now, done});
  while (samples_.size() > 2 && now - samples_[1].time > kRateWindow) samples_.pop_front();
}

double RateMeter::per_second() const {
  if (samples_.size() < 2) return 0;
  const double time = samples_.back().time - samples_.front().time;
  return static_cast<double>(samples_.back().done - samples_.front().done) / time;
}

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 86400) return fmt::format("{} d {:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string progress_line(std::string_view stage, std::int64_t done, std::int64_t total,
                          std::string_view unit, double per_second, int width) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const std::string eta = per_second > 0 && done < total
                              ? duration(static_cast<double>(total - done) / per_second)
                              : "-";
  const std::string figures =
      fmt::format("{:3.0f} %  {}/{} {}  {}  ETA {}", std::floor(share * 100), done, total, unit,
                  rate_text(per_second), eta);
  const int room = width - static_cast<int>(stage.size() + figures.size()) - 5;
  if (room < 8)
    return fmt::format("{} {}", stage, figures)
        .substr(0, width > 0 ? width - 1 : std::string::npos);
  const int length = std::min(room, 40);
  const auto filled = static_cast<int>(share * length);
  return fmt::format("{} [{}{}] {}", stage, std::string(filled, '#'),
                     std::string(length - filled, '.'), figures);
}

ConsoleProgress::ConsoleProgress(EventLog* log, bool terminal) : log_(log), terminal_(terminal) {}

ConsoleProgress::~ConsoleProgress() { erase_bar(); }

double ConsoleProgress::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void ConsoleProgress::erase_bar() {
  if (!bar_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  bar_shown_ = false;
}

void ConsoleProgress::show(double now) {
  const std::string line = progress_line(stage_, done_, total_, unit_, rate_.per_second(),
                                         terminal_ ? terminal_width() : 0);
  std::fputs((terminal_ ? "\r\x1b[K" + line : line + "\n").c_str(), stderr);
  std::fflush(stderr);
  bar_shown_ = terminal_;
  next_shown_ = now + (terminal_ ? kRedraw : kPlainLine);
}

void ConsoleProgress::begin(std::string_view stage, std::int64_t total, std::string_view unit) {
  if (open_) end();
  stage_ = stage;
  unit_ = unit;
  total_ = total;
  done_ = 0;
  start_ = Clock::now();
  rate_ = {};
  rate_.add(0, 0);
  open_ = true;
  next_shown_ = terminal_ ? 0 : kPlainLine;
  next_logged_ = kLogLine;
  if (log_ != nullptr) log_->write("begin", stage_, "", 0, total_);
  if (terminal_) show(0);
}

void ConsoleProgress::advance(std::int64_t done) {
  done_ += done;
  const double now = elapsed();
  rate_.add(now, done_);
  if (now >= next_shown_) show(now);
  if (log_ != nullptr && now >= next_logged_) {
    log_->write("progress", stage_, "", done_, total_);
    next_logged_ = now + kLogLine;
  }
}

void ConsoleProgress::end() {
  if (!open_) return;
  open_ = false;
  erase_bar();
  const double seconds = elapsed();
  fmt::print(stderr, "{}: {} {} in {}{}\n", stage_, done_, unit_, duration(seconds),
             seconds >= 1 && done_ > 0
                 ? fmt::format(" ({})", rate_text(static_cast<double>(done_) / seconds))
                 : "");
  std::fflush(stderr);
  if (log_ != nullptr) log_->write("end", stage_, "", done_, total_);
}

void ConsoleProgress::info(std::string_view message) {
  erase_bar();
  say_info(message);
  if (log_ != nullptr) log_->write("info", stage_, message);
}

void ConsoleProgress::warn(std::string_view message) {
  erase_bar();
  say_warning(message);
  if (log_ != nullptr) log_->write("warning", stage_, message);
}

}  // namespace dgap::app
