#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dgap::base {

/// The candidate with the smallest edit distance, empty when none is near (more than a third of the
/// letters would change).
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// "a, b and c".
std::string join(std::span<const std::string_view> words);

/// Bytes of `text` up to the first one that is not valid UTF-8; text.size() when all of it is.
std::size_t valid_utf8_prefix(std::string_view text);

/// Shortest decimal text that reads back as the same number.
std::string number(double value);
std::string number(float value);

}  // namespace dgap::base
