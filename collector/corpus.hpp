#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "schemas/config/config.hpp"

/// Books in the layout of PG-19: `<path>/<split>/<name>.txt` and, where present,
/// `<path>/metadata.csv`.
namespace dgap::collector {

struct Book {
  std::string name;  // of the file, without .txt
  std::string
      split;  // train, validation or test: the part that it plays, whatever its folder is called
  std::filesystem::path file;
};

/// Books of the splits that give sites, in the order train, validation, test and by name. IoError
/// when a folder is missing or without books; UsageError for other layouts; FailedError when a book
/// is in two splits. Warns of books without a row in metadata.csv.
std::vector<Book> list_books(const schemas::CorpusConfig& corpus, base::Progress& progress);

/// The book as it is decoded: without a byte-order mark, line ends LF. IoError with file, line and
/// byte offset on NUL bytes and on what is not UTF-8.
std::string read_book(const std::filesystem::path& file);

}  // namespace dgap::collector
