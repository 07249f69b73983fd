#include "engine/tokenizer/split_step.hpp"

#include <array>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
namespace {

SplitStep isolated(std::string_view pattern) {
  SplitStep step;
  step.pattern = pattern;
  return step;
}

constexpr std::array<std::string_view, 7> kTags{"gpt-2",  "smollm",   "starcoder", "llama-bpe",
                                                "llama3", "llama-v3", "qwen2"};

}  // namespace

std::vector<SplitStep> digits_then_gpt2() {
  return {isolated(patterns::kDigit), isolated(patterns::kGpt2)};
}

TaggedSplit split_of_tag(std::string_view tag) {
  if (tag == "gpt-2") return {{isolated(patterns::kGpt2)}, false, false, false};
  if (tag == "smollm" || tag == "starcoder") return {digits_then_gpt2(), false, false, false};
  if (tag == "llama-bpe" || tag == "llama3" || tag == "llama-v3") {
    return {{isolated(patterns::kLlama3)}, true, true, false};
  }
  if (tag == "qwen2") return {{isolated(patterns::kQwen2)}, false, false, true};
  throw base::UsageError("the pre-tokenizer tag '" + std::string(tag) + "' is unknown; known are " +
                         base::join(kTags));
}

}  // namespace dgap::engine
