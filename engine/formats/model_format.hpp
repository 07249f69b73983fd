#pragma once
#include <string>
#include <string_view>

namespace dgap::engine {

enum class ModelFormat { gguf, huggingface };

/// What `path` holds: a GGUF file or a Hugging Face folder. `format`: auto (a folder, or by the
/// file's first bytes), gguf or huggingface. UsageError for an unknown format or one that `path`
/// cannot be, IoError when the file cannot be read or is none of them.
ModelFormat detect_model_format(const std::string& path, std::string_view format);

}  // namespace dgap::engine
