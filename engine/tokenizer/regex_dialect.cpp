#include "engine/tokenizer/regex_dialect.hpp"

#include <array>
#include <vector>

#include "base/error.hpp"

namespace dgap::engine {
namespace {

constexpr std::size_t kMaxSize = 1 << 16;

/// Unicode's White_Space, inside a class. PCRE2's own \s has U+180E as well.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  std::string run() {
    if (in_.size() > kMaxSize) refuse("is " + std::to_string(in_.size()) + " bytes long");
    while (at_ < in_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::UsageError("the pattern '" + std::string(in_.substr(0, 200)) + "' " + what +
                           ", which is not supported");
  }
  [[noreturn]] void refuse_here(std::size_t length) const {
    refuse("has '" + std::string(in_.substr(at_, length)) + "' at byte " + std::to_string(at_));
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool caseless() const { return !groups_.empty() && groups_.back(); }
  void copy(std::size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  void item() {
    const char c = in_[at_];
    const char before = literal_before_;
    literal_before_ = 0;
    switch (c) {
      case '\\':
        return escape(false);
      case '[':
        return set();
      case '(':
        return open();
      case ')':
        if (!groups_.empty()) groups_.pop_back();
        return copy(1);
      case '{':
        return counts();
      case '}':
      case ']':
        refuse_here(1);
      case '^':
      case '$':  // lines in Oniguruma
        out_ += std::string("(?m:") + c + ")";
        ++at_;
        return;
      case '|':
      case '.':
      case '?':
      case '*':
      case '+':
        return copy(1);
      default:
        return literal(before);
    }
  }

  /// Without regard to case, Oniguruma also takes one character for two (U+00DF for "ss").
  void literal(char before) {
    const char c = in_[at_];
    if (caseless()) {
      constexpr std::array<std::string_view, 5> kFolded{"ss", "ff", "fi", "fl", "st"};
      const std::array<char, 2> pair{lower(before), lower(c)};
      for (const std::string_view folded : kFolded) {
        if (folded == std::string_view(pair.data(), 2)) refuse_here(1);
      }
      if (static_cast<unsigned char>(c) >= 0x80) refuse_here(1);
    }
    literal_before_ = c;
    copy(1);
  }

  void escape(bool in_set) {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (c == 's') {
      out_ += in_set ? std::string(kSpace) : "[" + std::string(kSpace) + "]";
      at_ += 2;
    } else if (c == 'S' && !in_set) {
      out_ += "[^" + std::string(kSpace) + "]";
      at_ += 2;
    } else if (c == 'd') {
      out_ += R"(\p{Nd})";
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'r' || c == 'n' || c == 't') {
      copy(2);
    } else if (c == '\0' || is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80) {
      refuse_here(2);
    } else {
      copy(2);
    }
  }

  /// General categories as they are; longer names are scripts.
  void property() {
    const std::size_t end = in_.find('}', at_);
    if (!in_.substr(at_ + 2).starts_with('{') || end == std::string_view::npos) refuse_here(3);
    const std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    for (const char c : name) {
      if (!is_letter(c) && c != '_') refuse_here(end + 1 - at_);
    }
    if (name.empty()) refuse_here(end + 1 - at_);
    out_ += in_.substr(at_, 3);
    out_ += (name.size() > 2 ? "sc:" : "") + std::string(name) + "}";
    at_ = end + 1;
  }

  void set() {
    const std::size_t begin = at_;
    copy(next_is("[^") ? 2 : 1);
    if (next_is("]")) refuse_here(1);
    while (!next_is("]")) {
      if (at_ == in_.size()) {
        at_ = begin;
        refuse_here(1);
      }
      if (next_is("[") || next_is("&&")) refuse_here(2);
      if (in_[at_] == '\\') {
        escape(true);
      } else {
        copy(1);
      }
    }
    copy(1);
  }

  void open() {
    constexpr std::array<std::string_view, 7> kGroups{"(?:",  "(?i:", "(?=", "(?!",
                                                      "(?<=", "(?<!", "(?>"};
    bool without_case = caseless();
    std::size_t length = 1;
    if (next_is("(?") || next_is("(*")) {
      length = 0;
      for (const std::string_view group : kGroups) {
        if (next_is(group)) length = group.size();
      }
      if (length == 0) refuse_here(3);
      without_case = without_case || next_is("(?i:");
    }
    groups_.push_back(without_case);
    copy(length);
  }

  /// {n}, {n,} and {n,m}; what follows means other things in Ruby's syntax.
  void counts() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return end > begin;
    };
    if (!digits()) refuse_here(2);
    if (end < in_.size() && in_[end] == ',') {
      ++end;
      digits();
    }
    if (end == in_.size() || in_[end] != '}') refuse_here(end - at_ + 1);
    ++end;
    if (end < in_.size() && (in_[end] == '?' || in_[end] == '+')) refuse_here(end - at_ + 1);
    copy(end - at_);
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0;
  std::vector<bool> groups_;  // open ones: whether case is disregarded inside
  char literal_before_ = 0;
};

}  // namespace

std::string to_pcre2(std::string_view expression) { return Translator(expression).run(); }

}  // namespace dgap::engine
