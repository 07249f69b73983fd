#include "engine/formats/open_weights.hpp"

#include "base/error.hpp"
#include "engine/formats/gguf_weights.hpp"
#include "engine/formats/model_format.hpp"

namespace dgap::engine {

std::unique_ptr<WeightSource> open_weights(const std::string& path, const std::string& format) {
  if (detect_model_format(path, format) == ModelFormat::huggingface) {
    throw base::UsageError(path + ": reading Hugging Face folders is not built in this version");
  }
  return std::make_unique<GgufWeights>(path);
}

}  // namespace dgap::engine
