// Any files are a Hugging Face folder, whose tensors can be read and whose tokenizer encodes, or an
// error of the toolkit. The input holds the folder's files in the order of kHuggingFaceFiles
// (folder.hpp).
#include "base/error.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/folder.hpp"

namespace {

template <class Act>
void attempt(const Act& act) {
  try {
    act();
  } catch (const dgap::base::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dgap;
  static const fuzz::Folder folder;
  const auto files =
      fuzz::unpack({reinterpret_cast<const char*>(data), size}, std::size(fuzz::kHuggingFaceFiles));
  for (std::size_t i = 0; i < files.size(); ++i) folder.put(fuzz::kHuggingFaceFiles[i], files[i]);
  attempt([&] { engine::check_weights(*engine::open_weights(folder.path(), "huggingface")); });
  attempt([&] {
    const auto tokenizer = engine::open_tokenizer(folder.path(), "huggingface");
    for (const bool parse_special : {false, true})
      tokenizer->decode(
          tokenizer->encode("the other<|im_start|> 12  and\n\xc3\xa9", parse_special));
  });
  return 0;
}
