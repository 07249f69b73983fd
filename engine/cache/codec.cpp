#include "engine/cache/codec.hpp"

#include "engine/cache/fp8_codec.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/kvarn_codec.hpp"
#include "engine/cache/sketch_codec.hpp"
#include "engine/cache/split_codec.hpp"

namespace dgap::engine {
namespace {

using schemas::Quantizer;
using schemas::TensorScheme;

/// turboquant's outlier channels come first, as an instance of their own.
std::shared_ptr<const Codec> make_split(const TensorScheme& tensor, int head_dim,
                                        std::uint64_t seed) {
  const int outliers = schemas::outlier_channels(tensor, head_dim);
  TensorScheme first = tensor, rest = tensor;
  first.bits = tensor.outlier_bits;
  first.outlier_bits = rest.outlier_bits = 0;
  return std::make_shared<SplitCodec>(make_codec(first, outliers, seed),
                                      make_codec(rest, head_dim - outliers, seed));
}

}  // namespace

std::vector<float> Codec::calibrate(std::int64_t, std::int64_t, const RowReader&) const {
  return {};
}

std::shared_ptr<const Codec> make_codec(const TensorScheme& tensor, int head_dim,
                                        std::uint64_t seed) {
  if (tensor.outlier_bits != 0) return make_split(tensor, head_dim, seed);
  switch (tensor.quantizer) {
    case Quantizer::exact:
    case Quantizer::kvquant:
    case Quantizer::quanto:
    case Quantizer::hqq:
      return nullptr;
    case Quantizer::fp8_e4m3:
    case Quantizer::fp8_e5m2:
      return std::make_shared<Fp8Codec>(tensor, head_dim);
    case Quantizer::turboquant_prod:
      return std::make_shared<SketchCodec>(tensor, head_dim, seed);
    case Quantizer::kvarn:
      return std::make_shared<KvarnCodec>(tensor, head_dim);
    default:
      return std::make_shared<GroupCodec>(GroupFormat(tensor, head_dim));
  }
}

}  // namespace dgap::engine
