#pragma once
#include <functional>
#include <string>

#include "base/error.hpp"

namespace dgap::testing {

/// The message of the error that `act` throws.
inline std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace dgap::testing
