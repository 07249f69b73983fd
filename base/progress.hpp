#pragma once
#include <cstdint>
#include <string_view>

namespace dgap::base {

/// How a stage tells what it is doing. The command implements it (bars, plain lines, log.jsonl);
/// tests use the silent base class. Called from one thread at a time.
class Progress {
 public:
  virtual ~Progress() = default;
  /// A stage of `total` units of work begins ("collect", 12'000, "steps").
  virtual void begin(std::string_view stage, std::int64_t total, std::string_view unit) {
    (void)stage, (void)total, (void)unit;
  }
  virtual void advance(std::int64_t done) { (void)done; }
  virtual void end() {}
  virtual void info(std::string_view message) { (void)message; }
  virtual void warn(std::string_view message) { (void)message; }
};

}  // namespace dgap::base
