#include "collector/corpus.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "collector/csv.hpp"

namespace dgap::collector {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBookBytes = std::uint64_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::vector<Book> books_of(const fs::path& folder, const std::string& split) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    throw base::IoError(folder.string() + ": cannot be listed: " + error.message() +
                        " (corpus.path, corpus.splits." + split + ")");
  }
  std::vector<Book> books;
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() != ".txt" || !entry.is_regular_file(error)) continue;
    books.push_back({entry.path().stem().string(), split, entry.path()});
  }
  if (books.empty()) throw base::IoError(folder.string() + ": holds no books (files named *.txt)");
  std::sort(books.begin(), books.end(),
            [](const Book& a, const Book& b) { return a.name < b.name; });
  return books;
}

void check_names(const std::vector<Book>& books) {
  std::map<std::string, const Book*> seen;
  for (const Book& book : books) {
    const auto [other, is_new] = seen.emplace(book.name, &book);
    if (!is_new) {
      throw base::FailedError(book.file.string() + ": is also " + other->second->file.string() +
                              "; a book belongs to one split");
    }
    if (base::valid_utf8_prefix(book.name) != book.name.size()) {
      throw base::IoError(book.file.string() + ": the name is not UTF-8");
    }
  }
}

void check_metadata(const fs::path& file, const std::vector<Book>& books,
                    base::Progress& progress) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  std::set<std::string> described;
  const std::string bytes = base::read_file(file, kMostBookBytes);
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (const CsvRow& row : parse_csv(text, file.string())) {
    if (!described.insert(row.fields.front()).second) {
      progress.warn(file.string() + ":" + std::to_string(row.line) + ": book " +
                    row.fields.front() + " is described twice");
    }
  }
  for (const Book& book : books) {
    if (!described.contains(book.name))
      progress.warn(file.string() + ": has no row for " + book.file.string());
  }
}

[[noreturn]] void refuse_byte(const fs::path& file, std::string_view text, std::size_t offset,
                              const std::string& what) {
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  throw base::IoError(file.string() + ":" + std::to_string(line) + ": byte " +
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

}  // namespace

std::vector<Book> list_books(const schemas::CorpusConfig& corpus, base::Progress& progress) {
  if (corpus.layout != "pg19") {
    throw base::UsageError("corpus.layout: \"" + corpus.layout +
                           "\" is unknown; this version reads pg19");
  }
  const fs::path root(corpus.path);
  const auto& [train, validation, test] = corpus.splits;
  const auto& sites = corpus.sites_per_book;
  std::vector<Book> books;
  const auto add = [&](const std::string& split, const std::string& folder, int sites_per_book) {
    if (sites_per_book == 0) return;
    std::vector<Book> more = books_of(root / folder, split);
    books.insert(books.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  };
  add("train", train, sites.train);
  add("validation", validation, sites.validation);
  add("test", test, sites.test);
  check_names(books);
  check_metadata(root / "metadata.csv", books, progress);
  return books;
}

std::string read_book(const fs::path& file) {
  std::string text = base::read_file(file, kMostBookBytes);
  check_bytes(file, text);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[kept++] = text[i];
  }
  text.resize(kept);
  return text;
}

}  // namespace dgap::collector
