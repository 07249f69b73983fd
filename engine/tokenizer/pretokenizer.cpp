#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pretokenizer.hpp"

#include <pcre2.h>

#include <array>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "engine/tokenizer/regex_dialect.hpp"

namespace dgap::engine {
namespace {

/// GPT-2's pattern after every number character was cut out, in one pass: numbers are pieces of
/// their own, never after a space, and the white space before one is at the end of its stretch, so
/// that it stays whole.
constexpr std::string_view kDigitsThenGpt2 =
    R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+)";

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct FreeContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

pcre2_code* compile_pattern(const std::string& expression, bool literal) {
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(
      pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_NO_UTF_CHECK | (literal ? PCRE2_LITERAL : PCRE2_UCP);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                   expression.size(), options, &error, &offset, context.get());
  if (code == nullptr) throw base::UsageError("is not valid: " + error_text(error));
  // Where PCRE2 was built without JIT the interpreter gives the same pieces, more slowly.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return code;
}

bool same(const SplitStep& step, std::string_view pattern) {
  return step.pattern == pattern && !step.literal && !step.invert && !step.prefix_space &&
         step.behavior == SplitStep::Behavior::isolated;
}

}  // namespace

void PreTokenizer::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

PreTokenizer::PreTokenizer(const std::vector<SplitStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool fused = i + 1 < steps.size() && same(steps[i], patterns::kDigit) &&
                       same(steps[i + 1], patterns::kGpt2);
    if (fused) {
      SplitStep both;
      both.pattern = kDigitsThenGpt2;
      steps_.push_back(compile(both));
      steps_.back().scanner = scan_digits_then_gpt2;
      ++i;
    } else {
      steps_.push_back(compile(steps[i]));
    }
  }
}

PreTokenizer::Step PreTokenizer::compile(const SplitStep& step) {
  Step out;
  out.behavior = step.behavior;
  out.invert = step.invert;
  out.prefix_space = step.prefix_space;
  if (step.pattern.empty()) return out;
  const auto refuse = [&](const std::string& what) {
    throw base::UsageError("the pattern '" + step.pattern.substr(0, 200) + "' " + what);
  };
  try {
    out.code.reset(
        compile_pattern(step.literal ? step.pattern : to_pcre2(step.pattern), step.literal));
  } catch (const base::UsageError& error) {
    if (std::string_view(error.what()).starts_with("the pattern")) throw;
    refuse(error.what());
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(out.code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) refuse("can match nothing at all, which is not supported");
  if (!step.literal && !step.invert && step.behavior == SplitStep::Behavior::isolated) {
    if (step.pattern == patterns::kGpt2) out.scanner = scan_gpt2;
    if (step.pattern == patterns::kLlama3) out.scanner = scan_llama3;
    if (step.pattern == patterns::kQwen2) out.scanner = scan_qwen2;
  }
  return out;
}

void PieceCursor::Free::operator()(pcre2_real_match_data_8* data) const {
  pcre2_match_data_free(data);
}

PieceCursor::PieceCursor(const PreTokenizer& pretokenizer) {
  for (const PreTokenizer::Step& step : pretokenizer.steps_) levels_.emplace_back(step);
}

void PieceCursor::start(std::string_view text) {
  whole_ = text;
  for (Level& level : levels_) level.start({});
}

std::string_view PieceCursor::next() { return next_of(levels_.size()); }

/// The next piece after the first `level` steps.
std::string_view PieceCursor::next_of(std::size_t level) {
  if (level == 0) return std::exchange(whole_, {});
  for (;;) {
    const std::string_view piece = levels_[level - 1].next();
    if (!piece.empty()) return piece;
    const std::string_view source = next_of(level - 1);
    if (source.empty()) return {};
    levels_[level - 1].start(source);
  }
}

PieceCursor::Level::Level(const PreTokenizer::Step& step)
    : step_(&step), match_(pcre2_match_data_create(1, nullptr)) {
  if (!match_) throw std::bad_alloc();
}

void PieceCursor::Level::start(std::string_view text) {
  if (step_->prefix_space && !text.empty() && text[0] != ' ') {
    prefixed_.assign(1, ' ').append(text);
    text = prefixed_;
  }
  text_ = text;
  at_ = match_begin_ = match_end_ = 0;
  peeked_ = {};
}

/// Empty at the end of the text.
std::string_view PieceCursor::Level::next() {
  using Behavior = SplitStep::Behavior;
  Segment segment = next_segment();
  switch (step_->behavior) {
    case Behavior::isolated:
      return segment.text;
    case Behavior::removed:
      while (segment.matched && !segment.text.empty()) segment = next_segment();
      return segment.text;
    case Behavior::contiguous:
      for (Segment after = peek(); !after.text.empty() && after.matched == segment.matched;
           after = peek()) {
        segment.text = joined(segment, next_segment());
      }
      return segment.text;
    case Behavior::merged_with_previous:
      if (!segment.matched && peek().matched) segment.text = joined(segment, next_segment());
      return segment.text;
    case Behavior::merged_with_next:
      if (segment.matched && !peek().text.empty() && !peek().matched) {
        segment.text = joined(segment, next_segment());
      }
      return segment.text;
  }
  return segment.text;
}

std::string_view PieceCursor::Level::joined(const Segment& first, const Segment& second) const {
  return {first.text.data(), first.text.size() + second.text.size()};
}

PieceCursor::Segment PieceCursor::Level::peek() {
  if (peeked_.text.empty()) peeked_ = next_segment();
  return peeked_;
}

std::string_view PieceCursor::Level::take(std::size_t end) {
  const std::string_view text = text_.substr(at_, end - at_);
  at_ = end;
  return text;
}

/// A match of the pattern, or the text before the next one. Both are not empty but at the end.
PieceCursor::Segment PieceCursor::Level::next_segment() {
  if (!peeked_.text.empty()) return std::exchange(peeked_, {});
  if (at_ == text_.size()) return {};
  if (at_ == match_end_) {
    if (step_->scanner != nullptr) {
      if (const std::size_t end = step_->scanner(text_, at_); end > at_) {
        match_begin_ = match_end_ = end;
        return {take(end), true};
      }
    }
    match();
  }
  const bool between = at_ < match_begin_;
  return {take(between ? match_begin_ : match_end_), between == step_->invert};
}

void PieceCursor::Level::match() {
  match_begin_ = match_end_ = text_.size();
  if (!step_->code) return;
  const auto find = [this](std::uint32_t options) {
    return pcre2_match(step_->code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                       at_, PCRE2_NO_UTF_CHECK | options, match_.get(), nullptr);
  };
  int rc = find(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = find(PCRE2_NO_JIT);
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
    throw base::FailedError("splitting the text failed at byte " + std::to_string(at_) + ": " +
                            error_text(rc));
  }
  if (rc < 0) return;
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match_.get());
  match_begin_ = found[0];
  match_end_ = found[1];
}

}  // namespace dgap::engine
