#include "app/messages.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace dgap::app {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    auto made = std::make_shared<spdlog::logger>("dgap", std::move(sink));
    made->set_pattern("dgap: %^%l%$: %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void say_info(std::string_view message) { logger().info("{}", message); }
void say_warning(std::string_view message) { logger().warn("{}", message); }
void say_error(std::string_view message) { logger().error("{}", message); }

}  // namespace dgap::app
