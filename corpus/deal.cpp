#include "corpus/deal.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <tbb/parallel_for.h>

#include "base/sha256.hpp"
#include "base/stop.hpp"

namespace dgap::corpus {
namespace {

/// Texts of a split, of `count` that are different: at least one where it is to have any.
std::size_t share_of(double share, double all, std::size_t count) {
  const auto wanted =
      static_cast<std::size_t>(std::llround(share / all * static_cast<double>(count)));
  return share > 0.0 ? std::max<std::size_t>(wanted, 1) : 0;
}

}  // namespace

std::vector<Book> deal(const schemas::CorpusConfig& corpus, std::vector<Book> books,
                       base::Progress& progress) {
  tbb::parallel_for(std::size_t{0}, books.size(), [&](std::size_t i) {
    base::throw_if_stop_requested();
    std::string& hash = books[i].text_sha256;
    if (hash.empty()) hash = base::sha256_hex(read_book(corpus, books[i]).text);
  });
  std::vector<std::size_t> order(books.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return books[a].text_sha256 < books[b].text_sha256;
  });
  const auto same = [&](std::size_t a, std::size_t b) {
    return books[a].text_sha256 == books[b].text_sha256;
  };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  if (const std::size_t twice = books.size() - order.size(); twice > 0) {
    progress.warn(corpus.path + ": " + std::to_string(twice) +
                  " texts occur more than once and are used once");
  }

  const schemas::SharesConfig& shares = corpus.shares;
  const double all = shares.train + shares.validation + shares.test;
  const std::size_t test = share_of(shares.test, all, order.size());
  const std::size_t validation = share_of(shares.validation, all, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    books[order[i]].split = i < test ? "test" : i < test + validation ? "validation" : "train";
  }
  std::erase_if(books, [](const Book& book) { return book.split.empty(); });
  return books;
}

}  // namespace dgap::corpus
