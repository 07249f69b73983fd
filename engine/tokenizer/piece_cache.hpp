#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace dgap::engine {

/// Tokens of short pieces that were encoded before: words come again. One slot per hash, the newest
/// piece keeps it, so that memory is bounded. For one thread.
class PieceCache {
 public:
  /// Tokens of `piece`, whose hash is `hash`; empty when they are not known.
  std::span<const std::int32_t> find(std::uint64_t hash, std::string_view piece) const {
    if (slots_.empty() || piece.size() > kMaxBytes) return {};
    const Slot& slot = slots_[hash % kSlots];
    const bool same =
        slot.size == piece.size() && std::memcmp(slot.text.data(), piece.data(), piece.size()) == 0;
    return {slot.ids.data(), same ? slot.count : std::size_t{0}};
  }

  void store(std::uint64_t hash, std::string_view piece, std::span<const std::int32_t> ids) {
    if (piece.size() > kMaxBytes || ids.size() > kMaxIds) return;
    if (slots_.empty()) slots_.resize(kSlots);
    Slot& slot = slots_[hash % kSlots];
    std::memcpy(slot.text.data(), piece.data(), piece.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
    slot.size = static_cast<std::uint8_t>(piece.size());
    slot.count = static_cast<std::uint8_t>(ids.size());
  }

 private:
  static constexpr std::size_t kSlots = 4096, kMaxBytes = 30, kMaxIds = 8;
  struct Slot {  // one line of the processor's cache
    std::array<char, kMaxBytes> text;
    std::uint8_t size, count;
    std::array<std::int32_t, kMaxIds> ids;
  };
  std::vector<Slot> slots_;
};

}  // namespace dgap::engine
