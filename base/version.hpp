#pragma once
#include <string_view>

namespace dgap::base {

/// Version of this build ("0.1.0") and the commit it was made from ("unknown" outside a checkout).
std::string_view version();
std::string_view commit();

}  // namespace dgap::base
