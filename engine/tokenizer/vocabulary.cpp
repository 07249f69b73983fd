#include "engine/tokenizer/vocabulary.hpp"

#include "base/sha256.hpp"

namespace dgap::engine {
namespace {

/// Numbers with a separator and texts with their length, so that no two vocabularies read alike.
class Hash {
 public:
  Hash& operator<<(std::int64_t number) {
    text_ += std::to_string(number) + " ";
    if (text_.size() > 1 << 16) flush();
    return *this;
  }
  Hash& operator<<(const std::string& text) {
    *this << static_cast<std::int64_t>(text.size());
    text_ += text;
    return *this;
  }
  std::string hex() {
    flush();
    return sha_.hex();
  }

 private:
  void flush() {
    sha_.update(text_);
    text_.clear();
  }
  base::Sha256 sha_;
  std::string text_;
};

void add_model(Hash& hash, const BytePairModel& model) {
  hash << static_cast<std::int64_t>(model.pieces.size());
  for (const std::string& piece : model.pieces) hash << piece;
  hash << static_cast<std::int64_t>(model.merges.size());
  for (const Merge& merge : model.merges) {
    hash << merge.left << merge.right << merge.result << merge.rank;
  }
  hash << model.whole_pieces_first << static_cast<std::int64_t>(model.units) << model.first_unlisted
       << model.unknown << model.fuse_unknown;
  for (const std::int32_t id : model.byte_tokens) hash << id;
}

}  // namespace

std::string hash_of(const Vocabulary& vocabulary) {
  Hash hash;
  hash << std::string("dgap-tokenizer/2");
  add_model(hash, vocabulary.model);
  hash << static_cast<std::int64_t>(vocabulary.texts.size());
  for (const std::string& text : vocabulary.texts) hash << text;
  hash << static_cast<std::int64_t>(vocabulary.added.size());
  for (const AddedToken& token : vocabulary.added) {
    hash << token.text << token.id << token.special << token.normalized << token.single_word
         << token.lstrip << token.rstrip;
  }
  hash << static_cast<std::int64_t>(vocabulary.normalizer.size());
  for (const NormalizerStep& step : vocabulary.normalizer) {
    hash << static_cast<std::int64_t>(step.kind) << step.from << step.to;
  }
  hash << static_cast<std::int64_t>(vocabulary.space_marks);
  hash << static_cast<std::int64_t>(vocabulary.split.size());
  for (const SplitStep& step : vocabulary.split) {
    hash << step.pattern << step.literal << static_cast<std::int64_t>(step.behavior) << step.invert
         << step.prefix_space;
  }
  hash << vocabulary.strips_space << vocabulary.bos << vocabulary.eos;
  return hash.hex();
}

}  // namespace dgap::engine
