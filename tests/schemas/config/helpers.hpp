#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "schemas/config/config.hpp"

namespace dgap::schemas {

/// The shortest valid configuration; tests append to it. Its last line is number 3.
inline const std::string kMinimal =
    "model: {path: m.gguf}\n"
    "corpus: {path: books}\n"
    "precisions: [K4V4]\n";

inline Config parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "c.yaml", overrides);
}

/// The message of the UsageError that parsing ends in.
inline std::string refusal(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  try {
    parsed(text, overrides);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace dgap::schemas
