#include "engine/formats/open_weights.hpp"

#include "engine/formats/gguf_weights.hpp"
#include "engine/formats/model_format.hpp"

namespace dgap::engine {

std::unique_ptr<WeightSource> open_weights(const std::string& path, const std::string& format) {
  detect_model_format(path, format);  // GGUF or an error
  return std::make_unique<GgufWeights>(path);
}

}  // namespace dgap::engine
