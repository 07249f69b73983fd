#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace dgap::engine {

/// Hash table with 64-bit keys, written once and then only read: open addressing in one array, at
/// most half full, so that a look-up is one cache line where std::unordered_map needs three.
template <class Value>
class FlatTable {
 public:
  /// Any key is possible but kEmpty.
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  void reserve(std::size_t entries) {
    slots_.assign(std::bit_ceil(2 * entries + 2), Slot{kEmpty, Value{}});
  }

  /// At most as many as were reserved. A key may be inserted several times.
  void insert(std::uint64_t key, const Value& value) {
    std::size_t at = home(key);
    while (slots_[at].key != kEmpty) at = next(at);
    slots_[at] = {key, value};
  }

  /// The first value under `key` that `accept` takes; nullptr when there is none.
  template <class Accept>
  const Value* find(std::uint64_t key, const Accept& accept) const {
    for (std::size_t at = home(key); slots_[at].key != kEmpty; at = next(at)) {
      if (slots_[at].key == key && accept(slots_[at].value)) return &slots_[at].value;
    }
    return nullptr;
  }

 private:
  struct Slot {
    std::uint64_t key;
    Value value;
  };
  std::size_t home(std::uint64_t key) const {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 32) & (slots_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  std::vector<Slot> slots_{Slot{kEmpty, Value{}}};
};

/// Hash of a byte string; never FlatTable's kEmpty. The same in every build.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
  };
  while (bytes.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    mix(word);
    bytes.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, bytes.data(), bytes.size());
  mix(tail);
  return hash >> 1;
}

}  // namespace dgap::engine
