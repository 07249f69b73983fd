#pragma once
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "corpus/corpus.hpp"

namespace dgap::corpus {

/// Deals the texts of a corpus without splits to train, validation and test, in the shares of
/// `corpus.shares`: by the hash of their contents, so that neither names nor order matter and a
/// text that occurs twice is used once. Keeps the order of those that remain.
std::vector<Book> deal(const schemas::CorpusConfig& corpus, std::vector<Book> books,
                       base::Progress& progress);

}  // namespace dgap::corpus
