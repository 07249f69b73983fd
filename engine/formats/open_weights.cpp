#include "engine/formats/open_weights.hpp"

#include "base/stop.hpp"
#include "engine/formats/gguf_weights.hpp"
#include "engine/formats/hf_weights.hpp"
#include "engine/formats/model_format.hpp"

namespace dgap::engine {

std::unique_ptr<WeightSource> open_weights(const std::string& path, const std::string& format) {
  if (detect_model_format(path, format) == ModelFormat::huggingface) return open_hf_weights(path);
  return open_gguf_weights(path);
}

void check_weights(const WeightSource& weights) {
  const HyperParameters& p = weights.parameters();
  const auto read = [&](WeightRole role, int layer) {
    if (weight_shape(p, role).rows > 0)
      weights.read(role, layer, [](std::int64_t, const float*) {});
  };
  for (const WeightRole role : kModelRoles) read(role, 0);
  for (int i = 0; i < p.layers; ++i) {
    base::throw_if_stop_requested();
    for (const WeightRole role : kLayerRoles) read(role, i);
  }
}

}  // namespace dgap::engine
