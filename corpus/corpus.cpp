#include "corpus/corpus.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "corpus/csv.hpp"
#include "corpus/deal.hpp"
#include "corpus/json_lines.hpp"
#include "corpus/plain_text.hpp"

namespace dgap::corpus {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::vector<Book> text_files(const fs::path& folder, const std::string& keys) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    throw base::IoError(folder.string() + ": cannot be listed: " + error.message() + " (" + keys +
                        ")");
  }
  std::vector<Book> books;
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() != ".txt" || !entry.is_regular_file(error)) continue;
    Book& book = books.emplace_back();
    book.name = entry.path().stem().string(), book.file = entry.path();
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
      throw base::FailedError(book.where() + ": is also " + other->second->where() +
                              "; a book belongs to one split");
    }
    if (base::valid_utf8_prefix(book.name) != book.name.size()) {
      throw base::IoError(book.where() + ": the name is not UTF-8");
    }
  }
}

void check_metadata(const fs::path& file, const std::vector<Book>& books,
                    base::Progress& progress) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  std::set<std::string> described;
  const std::string bytes = base::read_file(file, kMostMetadataBytes);
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

/// Calls list(split, its folder's name) for every split that gives sites.
template <class List>
std::vector<Book> of_each_split(const schemas::CorpusConfig& corpus, const List& list) {
  const auto& [train, validation, test] = corpus.splits;
  const schemas::SitesConfig& sites = corpus.sites_per_book;
  std::vector<Book> books;
  const auto add = [&](const std::string& split, const std::string& name, int sites_per_book) {
    if (sites_per_book == 0) return;
    for (Book& book : list(split, name)) {
      book.split = split;
      books.push_back(std::move(book));
    }
  };
  add("train", train, sites.train);
  add("validation", validation, sites.validation);
  add("test", test, sites.test);
  return books;
}

/// The books that were dealt to splits which give sites, split by split.
std::vector<Book> by_split(const schemas::CorpusConfig& corpus, const std::vector<Book>& dealt) {
  return of_each_split(corpus, [&](const std::string& split, const std::string&) {
    std::vector<Book> books;
    std::copy_if(dealt.begin(), dealt.end(), std::back_inserter(books),
                 [&](const Book& book) { return book.split == split; });
    return books;
  });
}

std::vector<Book> list_pg19(const schemas::CorpusConfig& corpus, base::Progress& progress) {
  const fs::path root(corpus.path);
  std::vector<Book> books = of_each_split(corpus, [&](const std::string& split, const auto& name) {
    return text_files(root / name, "corpus.path, corpus.splits." + split);
  });
  check_names(books);
  check_metadata(root / "metadata.csv", books, progress);
  return books;
}

std::vector<Book> list_texts(const schemas::CorpusConfig& corpus, base::Progress& progress) {
  std::vector<Book> books = text_files(corpus.path, "corpus.path");
  check_names(books);
  return by_split(corpus, deal(corpus, std::move(books), progress));
}

std::vector<Book> list_lines(const schemas::CorpusConfig& corpus, base::Progress& progress) {
  const fs::path root(corpus.path);
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    std::vector<Book> books = list_json_lines(corpus, root);
    check_names(books);
    return by_split(corpus, deal(corpus, std::move(books), progress));
  }
  std::vector<Book> books = of_each_split(corpus, [&](const std::string&, const auto& name) {
    return list_json_lines(corpus, root / (name + ".jsonl"));
  });
  check_names(books);
  return books;
}

}  // namespace

std::string Book::where() const {
  return file.string() + (line > 0 ? ":" + std::to_string(line) : "");
}

std::vector<Book> list_books(const schemas::CorpusConfig& corpus, base::Progress& progress) {
  if (corpus.layout == "pg19") return list_pg19(corpus, progress);
  if (corpus.layout == "texts") return list_texts(corpus, progress);
  if (corpus.layout == "jsonl" || corpus.layout == "chat") return list_lines(corpus, progress);
  throw base::UsageError("corpus.layout: \"" + corpus.layout +
                         "\" is not one of pg19, texts, jsonl and chat");
}

BookText read_book(const schemas::CorpusConfig& corpus, const Book& book) {
  if (book.line > 0) return {read_json_line(corpus, book)};
  PlainText plain = read_plain_text(book.file);
  return {std::move(plain.text), plain.trimmed};
}

}  // namespace dgap::corpus
