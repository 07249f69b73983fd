#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::testing {

/// One token per byte, and one more for <|im_start|> where it is wanted.
class ByteTokenizer : public engine::Tokenizer {
 public:
  explicit ByteTokenizer(bool chat = false, std::int32_t bos = -1) : chat_(chat), bos_(bos) {}
  std::int64_t vocab_size() const override { return 258; }
  std::vector<std::int32_t> encode(std::string_view text, bool special) const override {
    std::vector<std::int32_t> ids;
    while (!text.empty()) {
      if (special && chat_ && text.starts_with(kStart)) {
        ids.push_back(256);
        text.remove_prefix(kStart.size());
      } else {
        ids.push_back(static_cast<unsigned char>(text.front()));
        text.remove_prefix(1);
      }
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id == 256)
        text += kStart;
      else
        text += static_cast<char>(id);
    }
    return text;
  }
  std::int32_t bos() const override { return bos_; }
  std::int32_t eos() const override { return -1; }
  std::string sha256() const override { return "bytes"; }

 private:
  static constexpr std::string_view kStart = "<|im_start|>";
  bool chat_;
  std::int32_t bos_;
};

}  // namespace dgap::testing
