#include "engine/model/decoder.hpp"

namespace dgap::engine {
namespace {

double bits(std::int64_t bytes, std::int64_t elements) {
  return elements == 0 ? 16.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace

double CacheBytes::bits_key() const { return bits(code_bytes_key, elements_key); }
double CacheBytes::bits_value() const { return bits(code_bytes_value, elements_value); }
double CacheBytes::total_bits_key() const { return bits(total_bytes_key, total_elements_key); }
double CacheBytes::total_bits_value() const { return bits(total_bytes_value, total_elements_value); }

}  // namespace dgap::engine
