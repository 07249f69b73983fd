// Any files are a Hugging Face folder, whose tensors can be read and whose tokenizer encodes, or an
// error of the toolkit. The input holds the folder's files in the order of kFiles, each after its
// length (4 bytes, little-endian); one of length 2^32 - 1 is not there, and the rest is the last.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"config.json",     "model.safetensors.index.json",
                                  "tokenizer.json",  "tokenizer_config.json",
                                  "tokenizer.model", "model.safetensors"};

/// In memory, and gone with the process.
class Folder {
 public:
  Folder() : path_("/dev/shm/dgap-fuzz-" + std::to_string(::getpid())) {
    fs::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

  void fill(std::string_view bytes) const {
    for (const char* name : kFiles) {
      constexpr std::uint32_t kAbsent = ~std::uint32_t{0};
      std::uint32_t length = kAbsent;
      if (bytes.size() >= sizeof length) {
        std::memcpy(&length, bytes.data(), sizeof length);
        bytes.remove_prefix(sizeof length);
      }
      fs::remove(path_ / name);
      if (length == kAbsent) continue;
      const std::size_t size = std::min<std::size_t>(length, bytes.size());
      std::ofstream(path_ / name, std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(size));
      bytes.remove_prefix(size);
    }
  }

 private:
  fs::path path_;
};

template <class Act>
void attempt(const Act& act) {
  try {
    act();
  } catch (const dgap::base::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  folder.fill({reinterpret_cast<const char*>(data), size});
  const std::string path = folder.path().string();
  attempt([&] { dgap::engine::check_weights(*dgap::engine::open_weights(path, "huggingface")); });
  attempt([&] {
    const auto tokenizer = dgap::engine::open_tokenizer(path, "huggingface");
    for (const bool parse_special : {false, true})
      tokenizer->decode(
          tokenizer->encode("the other<|im_start|> 12  and\n\xc3\xa9", parse_special));
  });
  return 0;
}
