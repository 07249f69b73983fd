#include "engine/formats/gguf_file.hpp"
#include "engine/formats/model_format.hpp"
#include "engine/tokenizer/byte_level_tokenizer.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::engine {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& model_path,
                                          const std::string& format) {
  detect_model_format(model_path, format);  // GGUF or an error
  return std::make_unique<ByteLevelTokenizer>(read_vocabulary(GgufFile(model_path)));
}

}  // namespace dgap::engine
