#include "calibrator/allocation/bit_space.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace dgap::calibrator {
namespace {

/// The base's tensor with other bits, by the rules of an allocation file.
schemas::TensorScheme with_bits(const schemas::Scheme& base, bool value, int bits) {
  const char* tensor = value ? "value" : "key";
  const nlohmann::json list = {{{tensor, {{"bits", bits}}}}};
  const auto overrides = schemas::overrides_from_json(list, base, "allocation.choices");
  return value ? *overrides.front().value : *overrides.front().key;
}

}  // namespace

BitSpace::BitSpace(const schemas::Scheme& base, int layers, int kv_heads)
    : base_(base), layers_(layers), kv_heads_(kv_heads) {
  if (!base.overrides.empty()) {
    throw base::UsageError("allocation.base: " + base.name +
                           " has overrides of its own; name a scheme without any");
  }
}

Part BitSpace::part(std::size_t index) const {
  const auto head = static_cast<int>(index / 2);
  return {head / kv_heads_, head % kv_heads_, index % 2 == 1};
}

std::size_t BitSpace::index(const Part& part) const {
  return static_cast<std::size_t>(2 * (part.layer * kv_heads_ + part.head) + (part.value ? 1 : 0));
}

schemas::Allocation BitSpace::allocation(const Bits& bits) const {
  std::map<std::pair<std::pair<bool, int>, int>, std::vector<int>> layers;  // by tensor, bits, head
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const Part p = part(i);
    if (bits[i] != kBaseBits) layers[{{p.value, bits[i]}, p.head}].push_back(p.layer);
  }
  schemas::Allocation allocation{layers_, kv_heads_, {}};
  for (auto& [key, of_head] : layers) {
    const auto& [tensor, head] = key;
    schemas::Override& one = allocation.overrides.emplace_back();
    one.layers = std::move(of_head);
    one.heads = {head};
    (tensor.first ? one.value : one.key) = with_bits(base_, tensor.first, tensor.second);
  }
  return allocation;
}

schemas::Scheme BitSpace::scheme(const Bits& bits) const {
  schemas::Scheme scheme = base_;
  schemas::apply(allocation(bits), scheme);
  return scheme;
}

void BitSpace::set_width(bool value, int bits, double bits_per_element) {
  widths_[{value, bits}] = bits_per_element;
}

double BitSpace::bits_per_element(const Bits& bits) const {
  double sum = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) sum += width(part(i).value, bits[i]);
  return sum / static_cast<double>(size());
}

double BitSpace::added(const Part& part, int bits) const {
  return (width(part.value, bits) - width(part.value, kBaseBits)) / static_cast<double>(size());
}

}  // namespace dgap::calibrator
