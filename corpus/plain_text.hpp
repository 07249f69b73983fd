#pragma once
#include <filesystem>
#include <string>

namespace dgap::corpus {

struct PlainText {
  std::string text;
  bool trimmed = false;  // a Project Gutenberg header or footer was left out
};

/// A text file as it is decoded: without a byte-order mark, line ends LF, without the header and
/// footer that Project Gutenberg puts around a book. IoError with file, line and byte offset on NUL
/// bytes, on what is not UTF-8, and on markers that do not enclose a text.
PlainText read_plain_text(const std::filesystem::path& file);

}  // namespace dgap::corpus
