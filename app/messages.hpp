#pragma once
#include <string_view>

namespace dgap::app {

/// Messages to people, on standard error ("dgap: warning: ..."), in colour on a terminal.
void say_info(std::string_view message);
void say_warning(std::string_view message);
void say_error(std::string_view message);

}  // namespace dgap::app
