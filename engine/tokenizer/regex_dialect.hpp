#pragma once
#include <string>
#include <string_view>

namespace dgap::engine {

/// A pattern of a tokenizer.json (Oniguruma, Ruby syntax, UTF-8) as one of PCRE2 (UTF, UCP, newline
/// LF) that matches the same text. UsageError for what the two may understand differently, naming
/// it and its place: what passes here means the same in both, or PCRE2 refuses to compile it.
std::string to_pcre2(std::string_view expression);

}  // namespace dgap::engine
