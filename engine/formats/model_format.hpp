#pragma once
#include <string>
#include <string_view>

namespace dgap::engine {

enum class ModelFormat { gguf };

/// What `path` holds. `format`: auto (by the file's first bytes), gguf or huggingface. UsageError
/// for an unknown or unavailable format, IoError when the file cannot be read or is none of them.
ModelFormat detect_model_format(const std::string& path, std::string_view format);

}  // namespace dgap::engine
