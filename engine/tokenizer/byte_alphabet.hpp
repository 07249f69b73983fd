#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dgap::engine {

/// GPT-2's alphabet: vocabularies write every byte as one printable character, so that tokens are
/// text. Printable Latin-1 bytes stand for themselves, the others for U+0100, U+0101, ... in order.
class ByteAlphabet {
 public:
  ByteAlphabet();
  /// Bytes that `text` stands for; nothing when it is not written in the alphabet.
  std::optional<std::string> to_bytes(std::string_view text) const;

 private:
  std::array<std::int16_t, 0x144> byte_of_{};  // by code point; -1 for none
};

}  // namespace dgap::engine
