#include "engine/cache/layer_codes.hpp"

#include "engine/cache/hf_codes.hpp"
#include "engine/cache/kvquant_codes.hpp"

namespace dgap::engine {

std::unique_ptr<LayerCodes> make_layer_codes(const schemas::TensorScheme& tensor, int heads,
                                             int head_dim,
                                             const schemas::TensorCalibration* calibration) {
  if (tensor.quantizer == schemas::Quantizer::kvquant)
    return std::make_unique<KvquantCodes>(tensor, heads, head_dim, *calibration);
  if (schemas::spans_heads(tensor)) return std::make_unique<HfCodes>(tensor, heads, head_dim);
  return nullptr;
}

}  // namespace dgap::engine
