#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "app/command.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::app {

using testing::TemporaryFolder;

/// argv of "dgap" and the given words.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    pointers_.push_back("dgap");
    for (const std::string& word : words_) pointers_.push_back(word.c_str());
  }
  int argc() const { return static_cast<int>(pointers_.size()); }
  const char* const* argv() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<const char*> pointers_;
};

struct Outcome {
  int code;
  std::string out, err;
};

inline Outcome run(const std::vector<std::string>& words, const Actions& actions) {
  const Arguments arguments(words);
  std::ostringstream out;
  ::testing::internal::CaptureStderr();
  const int code = run_command(arguments.argc(), arguments.argv(), actions, out);
  return {code, out.str(), ::testing::internal::GetCapturedStderr()};
}

}  // namespace dgap::app
