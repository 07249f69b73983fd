#include "engine/tokenizer/byte_alphabet.hpp"

namespace dgap::engine {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  byte_of_.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = stands_for_itself(byte) ? byte : next++;
    byte_of_[static_cast<std::size_t>(code_point)] = static_cast<std::int16_t>(byte);
  }
}

std::optional<std::string> ByteAlphabet::to_bytes(std::string_view text) const {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t code_point = static_cast<unsigned char>(text[i]);
    if (code_point >= 0x80) {  // the alphabet ends at U+0143: two bytes of UTF-8 at most
      if (code_point < 0xc2 || code_point > 0xc5 || i + 1 == text.size()) return {};
      const std::size_t low = static_cast<unsigned char>(text[++i]);
      if (low < 0x80 || low > 0xbf) return {};
      code_point = (code_point & 0x1f) << 6 | (low & 0x3f);
    }
    if (code_point >= byte_of_.size() || byte_of_[code_point] < 0) return {};
    bytes += static_cast<char>(byte_of_[code_point]);
  }
  return bytes;
}

}  // namespace dgap::engine
