#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dgap::engine {

/// One step of pre-tokenization: a pattern that cuts pieces into smaller ones. Names are those of
/// Hugging Face's tokenizers.
struct SplitStep {
  /// What becomes of the text that the pattern matches.
  enum class Behavior { isolated, removed, contiguous, merged_with_previous, merged_with_next };
  /// Oniguruma's syntax (see to_pcre2), or the text itself where `literal`. Empty: no cuts.
  std::string pattern;
  bool literal = false;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // what lies between the matches counts as matched
  /// Before splitting, a space is put in front of pieces that do not begin with one.
  bool prefix_space = false;
};

/// The patterns that models are trained with.
namespace patterns {
/// GPT-2, and ByteLevel with use_regex.
inline constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kDigit = R"(\p{N})";  // Digits with individual_digits
inline constexpr std::string_view kDigits = R"(\p{N}+)";
}  // namespace patterns

/// Every number character alone, then GPT-2's pattern inside what lies between: SmolLM2.
std::vector<SplitStep> digits_then_gpt2();

/// What a pre-tokenizer's tag in a GGUF file (`tokenizer.ggml.pre`) stands for.
struct TaggedSplit {
  std::vector<SplitStep> steps;
  bool whole_pieces_first = false;  // see BytePairModel
  bool adds_bos = false;            // unless the file says otherwise
  bool nfc = false;                 // text is normalised first
};

/// UsageError for an unknown tag: a wrong pattern would change ids silently.
TaggedSplit split_of_tag(std::string_view tag);

}  // namespace dgap::engine
