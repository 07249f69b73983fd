#include "engine/cache/group_codec.hpp"

#include <algorithm>
#include <vector>

#include "engine/cache/codebooks.hpp"

namespace dgap::engine {
namespace {

Codec::Layout layout_of(const GroupFormat& format) {
  return {format.width, format.step(), format.row_bytes(), format.step_scales(),
          format.has_minima() ? format.step_scales() : 0};
}

}  // namespace

GroupFormat::GroupFormat(const schemas::TensorScheme& tensor, int head_dim)
    : quantizer(tensor.quantizer),
      bits(tensor.bits),
      axis(tensor.axis),
      width(head_dim),
      group(tensor.group_size == 0 ? head_dim : tensor.group_size),
      norm_correction(tensor.norm_correction) {
  const std::vector<float> table = levels_of(tensor, head_dim);
  level_count = static_cast<int>(table.size());
  std::copy(table.begin(), table.end(), levels);
  for (std::size_t k = 0; k + 1 < table.size(); ++k)
    thresholds[k] =
        static_cast<float>((static_cast<double>(table[k]) + static_cast<double>(table[k + 1])) / 2);
}

GroupCodec::GroupCodec(const GroupFormat& format) : Codec(layout_of(format)), format_(format) {}

}  // namespace dgap::engine
