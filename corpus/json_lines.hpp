#pragma once
#include <string>
#include <vector>

#include "corpus/corpus.hpp"

/// The layouts jsonl and chat: one JSON object per line.
namespace dgap::corpus {

/// One entry per line that is not blank, without a split. IoError naming file, line and key.
std::vector<Book> list_json_lines(const schemas::CorpusConfig& corpus,
                                  const std::filesystem::path& file);

/// The text of an entry; a conversation in the model's template.
std::string read_json_line(const schemas::CorpusConfig& corpus, const Book& book);

}  // namespace dgap::corpus
