#include "base/error.hpp"
#include "engine/formats/gguf_file.hpp"
#include "engine/formats/model_format.hpp"
#include "engine/tokenizer/bpe_tokenizer.hpp"
#include "engine/tokenizer/gguf_tokenizer.hpp"
#include "engine/tokenizer/huggingface_tokenizer.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::engine {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& model_path,
                                          const std::string& format) {
  Vocabulary vocabulary = detect_model_format(model_path, format) == ModelFormat::huggingface
                              ? read_huggingface_tokenizer(model_path)
                              : read_gguf_tokenizer(GgufFile(model_path));
  try {
    return std::make_unique<BpeTokenizer>(std::move(vocabulary));
  } catch (const base::UsageError& error) {  // a pattern; it does not know the file
    throw base::UsageError(model_path + ": " + error.what());
  }
}

}  // namespace dgap::engine
