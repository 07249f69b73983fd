// The first byte chooses: any bytes are a vocabulary or an error of the toolkit, and what was
// accepted encodes and decodes; or any bytes are text that survives encoding and decoding, or not
// UTF-8.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/tokenizer/bpe_tokenizer.hpp"

namespace {

using namespace dgap;

/// Bytes, some merges, and two special tokens.
engine::BpeTokenizer make_tokenizer(const char* pretokenizer) {
  engine::Vocabulary vocabulary;
  vocabulary.split = engine::split_of_tag(pretokenizer).steps;
  std::vector<std::string>& pieces = vocabulary.model.pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  std::uint32_t rank = 0;
  const auto merge = [&](std::int32_t left, std::int32_t right) {
    const auto result = static_cast<std::int32_t>(pieces.size());
    vocabulary.model.merges.push_back({left, right, result, rank++});
    pieces.push_back(pieces[static_cast<std::size_t>(left)] +
                     pieces[static_cast<std::size_t>(right)]);
    return result;
  };
  const std::int32_t spaces = merge(' ', ' ');
  merge(spaces, spaces);
  merge(merge('a', 'b'), 'a');
  merge(' ', merge('a', 'a'));
  merge(0xc3, 0xa9);
  vocabulary.texts = pieces;
  for (const char* text : {"<s>", "<s>a"}) {
    engine::AddedToken token;
    token.text = text;
    token.id = static_cast<std::int32_t>(pieces.size());
    token.special = true;
    vocabulary.added.push_back(token);
    vocabulary.texts.emplace_back(text);
    pieces.emplace_back();
  }
  return engine::BpeTokenizer(std::move(vocabulary));
}

void round_trip(const engine::Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    try {
      if (tokenizer.decode(tokenizer.encode(text, parse_special)) != text) std::abort();
    } catch (const base::IoError&) {  // not UTF-8, or a byte without token
    }
  }
}

void fuzz_vocabulary(std::string_view bytes) {
  static const int fd = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (::ftruncate(fd, 0) != 0) return;
  if (::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return;
  try {
    const auto tokenizer = engine::open_tokenizer(path, "gguf");
    round_trip(*tokenizer, "the other<|im_start|> 12  and\n\xc3\xa9");
  } catch (const base::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const engine::BpeTokenizer tokenizers[] = {
      make_tokenizer("gpt-2"), make_tokenizer("smollm"), make_tokenizer("llama-bpe"),
      make_tokenizer("qwen2")};
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'G') {
    fuzz_vocabulary({reinterpret_cast<const char*>(data), size});  // "GGUF..."
  } else {
    const bool valid = base::valid_utf8_prefix(rest) == rest.size();
    if (valid) round_trip(tokenizers[data[0] % 4], rest);
  }
  return 0;
}
