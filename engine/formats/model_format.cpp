#include "engine/formats/model_format.hpp"

#include <array>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
namespace {

constexpr std::array<std::string_view, 3> kFormats{"auto", "gguf", "huggingface"};

void check_format(std::string_view format) {
  for (const std::string_view known : kFormats) {
    if (format == known) return;
  }
  const std::string_view near = base::nearest(format, kFormats);
  throw base::UsageError("model.format is '" + std::string(format) + "'; known are " +
                         base::join(kFormats) +
                         (near.empty() ? "" : " (did you mean '" + std::string(near) + "'?)"));
}

bool begins_like_gguf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) base::throw_errno(path, "cannot be opened");
  std::array<char, 4> head{};
  file.read(head.data(), head.size());
  return std::string_view(head.data(), static_cast<std::size_t>(file.gcount())) == "GGUF";
}

}  // namespace

ModelFormat detect_model_format(const std::string& path, std::string_view format) {
  check_format(format);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw base::IoError(path + ": no such model file" +
                        (error ? " (" + error.message() + ")" : ""));
  }
  const bool folder = std::filesystem::is_directory(status);
  if (folder && format == "gguf") {
    throw base::UsageError(path + ": is a folder; model.format gguf needs a file");
  }
  if (!folder && format == "huggingface") {
    throw base::UsageError(path + ": is a file; model.format huggingface needs a folder");
  }
  if (folder) return ModelFormat::huggingface;
  if (format == "auto" && !begins_like_gguf(path)) {
    throw base::IoError(path + ": is neither a GGUF file nor a folder with a Hugging Face model");
  }
  return ModelFormat::gguf;
}

}  // namespace dgap::engine
