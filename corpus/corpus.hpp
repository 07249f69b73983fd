#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "schemas/config/config.hpp"

/// The texts of a corpus, in the layouts of `corpus.layout`:
///   pg19   `<path>/<split>/<name>.txt` and, where present, `<path>/metadata.csv`
///   texts  `<path>/*.txt`, dealt to the splits
///   jsonl  JSON lines {"text": ..., "id": ...}: a file, dealt to the splits, or a folder of
///          `<split>.jsonl`
///   chat   the same of {"messages": [{"role": ..., "content": ...}, ...], "id": ...}
namespace dgap::corpus {

struct Book {
  std::string name;   // of the file without .txt, or the line's id; unique
  std::string split;  // train, validation or test: the part that it plays, whatever its folder is
                      // called
  std::filesystem::path file;
  std::int64_t line = 0;                 // of a JSON lines file, from 1; 0: the whole file
  std::uint64_t offset = 0, length = 0;  // of that line, in bytes
  std::string text_sha256;               // empty until the text has been read

  /// For messages: the file, and the line where there is one.
  std::string where() const;
};

struct BookText {
  std::string text;
  bool trimmed = false;  // a Project Gutenberg header or footer was left out
};

/// Texts of the splits that give sites, in the order train, validation, test and by name (JSON
/// lines: as they come). IoError when a folder or file is missing or without texts, or a line is
/// not what the layout says; FailedError when a name occurs twice. Warns of books without a row in
/// metadata.csv, and of texts that a dealt corpus holds more than once.
std::vector<Book> list_books(const schemas::CorpusConfig& corpus, base::Progress& progress);

/// The text as it is decoded. IoError with file, line and byte offset on what is not text.
BookText read_book(const schemas::CorpusConfig& corpus, const Book& book);

}  // namespace dgap::corpus
