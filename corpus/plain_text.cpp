#include "corpus/plain_text.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace dgap::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBookBytes = std::uint64_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string line_of(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(offset);
  return std::to_string(1 + std::count(text.begin(), end, '\n'));
}

[[noreturn]] void refuse_byte(const fs::path& file, std::string_view text, std::size_t offset,
                              const std::string& what) {
  throw base::IoError(file.string() + ":" + line_of(text, offset) + ": byte " +
                      std::to_string(offset) + " " + what);
}

void check_bytes(const fs::path& file, std::string_view text) {
  const std::size_t valid = base::valid_utf8_prefix(text);
  if (valid != text.size()) {
    refuse_byte(file, text, valid,
                "is not UTF-8; convert the book, e.g. with iconv -f LATIN1 -t UTF-8");
  }
  const std::size_t nul = text.find('\0');
  if (nul != text.npos) refuse_byte(file, text, nul, "is NUL, which no text holds");
}

void unify_line_ends(std::string& text) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[kept++] = text[i];
  }
  text.resize(kept);
}

bool contains(std::string_view line, std::string_view words) {
  return line.find(words) != line.npos;
}

enum class Marker { none, start, end };

/// "*** START OF THIS PROJECT GUTENBERG EBOOK ... ***" and its like; the last line of the older
/// header, "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*...".
Marker marker_of(std::string_view line) {
  if (!line.starts_with('*')) return Marker::none;
  if (contains(line, "END*THE SMALL PRINT") || contains(line, "END THE SMALL PRINT")) {
    return Marker::start;
  }
  if (!line.starts_with("***") || !contains(line, "PROJECT GUTENBERG")) return Marker::none;
  if (contains(line, "START OF")) return Marker::start;
  return contains(line, "END OF") ? Marker::end : Marker::none;
}

/// "End of the Project Gutenberg EBook of ..." shortly before the marker.
std::size_t without_last_words(std::string_view text, std::size_t begin, std::size_t end) {
  constexpr std::size_t kNear = 400;
  const std::string_view tail =
      text.substr(std::max(begin, end > kNear ? end - kNear : 0), std::min(kNear, end - begin));
  const std::size_t found = tail.rfind("\nEnd of ");
  if (found == tail.npos || !contains(tail.substr(found), "Project Gutenberg")) return end;
  return end - (tail.size() - found - 1);
}

/// Leaves out what lies before and after the markers.
bool trim_gutenberg(const fs::path& file, std::string& text) {
  std::size_t begin = 0, end = text.size();
  bool started = false, ended = false;
  for (std::size_t at = 0; at < text.size() && !ended;) {
    const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    const Marker marker = marker_of(std::string_view(text).substr(at, next - at));
    // The older header is followed by the newer marker in some files: the last one counts.
    if (marker == Marker::start) started = true, begin = next;
    if (marker == Marker::end) ended = true, end = at;
    at = next;
  }
  if (!started && !ended) return false;
  end = ended ? without_last_words(text, begin, end) : end;
  if (text.find_first_not_of(" \n", begin) >= end) {
    throw base::IoError(file.string() + ":" + line_of(text, begin) + ": byte " +
                        std::to_string(begin) +
                        ": there is no text between the Project Gutenberg header and footer");
  }
  text.erase(end);
  text.erase(0, text.find_first_not_of('\n', begin));
  return true;
}

}  // namespace

PlainText read_plain_text(const fs::path& file) {
  PlainText book{base::read_file(file, kMostBookBytes)};
  check_bytes(file, book.text);
  if (book.text.starts_with(kByteOrderMark)) book.text.erase(0, kByteOrderMark.size());
  unify_line_ends(book.text);
  book.trimmed = trim_gutenberg(file, book.text);
  return book;
}

}  // namespace dgap::corpus
