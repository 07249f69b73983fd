#include "base/error.hpp"
#include "engine/formats/gguf_file.hpp"
#include "engine/formats/model_format.hpp"
#include "engine/tokenizer/byte_level_tokenizer.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::engine {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& model_path,
                                          const std::string& format) {
  if (detect_model_format(model_path, format) == ModelFormat::huggingface) {
    throw base::UsageError(model_path +
                           ": tokenizers of Hugging Face folders are not built in this version");
  }
  Vocabulary vocabulary = read_vocabulary(GgufFile(model_path));
  try {
    return std::make_unique<ByteLevelTokenizer>(std::move(vocabulary));
  } catch (const base::UsageError& error) {  // an unknown pre-tokenizer; it does not know the file
    throw base::UsageError(model_path + ": " + error.what());
  }
}

}  // namespace dgap::engine
