#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::schemas {

/// Throws with the scheme's name before the message.
class Check {
 public:
  explicit Check(std::string_view name) : name_(name) {}
  void require(bool ok, const std::string& message) const {
    if (!ok) throw base::UsageError("scheme '" + name_ + "': " + message);
  }
  void range(std::string_view key, std::int64_t value, std::int64_t low, std::int64_t high) const {
    require(value >= low && value <= high, std::string(key) + " is " + std::to_string(value) +
                                               "; it must lie in [" + std::to_string(low) + ", " +
                                               std::to_string(high) + "]");
  }

 private:
  std::string name_;
};

/// One tensor of a scheme, `which` being key or value; head_dim 0 = not known.
void check_tensor(const Check& check, const std::string& which, const TensorScheme& tensor,
                  int head_dim);

}  // namespace dgap::schemas
