#include "engine/tokenizer/byte_pair_encoder.hpp"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>

namespace dgap::engine {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const std::vector<std::string>& tokens,
                                 const std::vector<bool>& plain, const std::vector<Merge>& merges,
                                 bool whole_pieces_first)
    : tokens_(tokens) {
  byte_tokens_.fill(-1);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (plain[id] && tokens[id].size() == 1) {
      byte_tokens_[static_cast<unsigned char>(tokens[id][0])] = static_cast<std::int32_t>(id);
    }
  }
  every_byte_has_a_token_ = std::count(byte_tokens_.begin(), byte_tokens_.end(), -1) == 0;
  rules_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    rules_.insert(pair_key(merge.left, merge.right),
                  Rule{static_cast<std::uint32_t>(rank), merge.result});
  }
  index_whole_pieces(plain, whole_pieces_first);
}

/// Most pieces of ordinary text are one token, which a look-up finds at once. It is exact, because
/// only tokens are entered that merging their own bytes leads to.
void BytePairEncoder::index_whole_pieces(const std::vector<bool>& plain, bool all) {
  std::vector<char> entered(tokens_.size(), 0);
  const auto check = [&](const oneapi::tbb::blocked_range<std::size_t>& range) {
    Workspace workspace;
    std::vector<std::int32_t> ids;
    for (std::size_t id = range.begin(); id < range.end(); ++id) {
      if (!plain[id]) continue;
      entered[id] = all;
      if (all || find_unencodable(tokens_[id]) != std::string_view::npos) continue;
      ids.clear();
      merge(tokens_[id], workspace, ids);
      entered[id] = ids.size() == 1;
    }
  };
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::size_t>(0, tokens_.size(), 1024),
                            check);
  whole_pieces_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (entered[id] != 0)
      whole_pieces_.insert(hash_bytes(tokens_[id]), static_cast<std::int32_t>(id));
  }
}

std::size_t BytePairEncoder::find_unencodable(std::string_view text) const {
  if (every_byte_has_a_token_) return std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte_tokens_[static_cast<unsigned char>(text[i])] < 0) return i;
  }
  return std::string_view::npos;
}

void BytePairEncoder::encode(std::string_view piece, Workspace& workspace,
                             std::vector<std::int32_t>& out) const {
  const auto same = [&](std::int32_t id) { return tokens_[static_cast<std::size_t>(id)] == piece; };
  if (const std::int32_t* id = whole_pieces_.find(hash_bytes(piece), same)) {
    out.push_back(*id);
  } else {
    merge(piece, workspace, out);
  }
}

/// Symbols live at the index of their first byte, so that their lengths link them in both
/// directions.
void BytePairEncoder::merge(std::string_view piece, Workspace& workspace,
                            std::vector<std::int32_t>& out) const {
  auto& symbols = workspace.symbols;
  auto& heap = workspace.heap;
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.begin > b.begin;
  };
  symbols.resize(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    symbols[i] = {byte_tokens_[static_cast<unsigned char>(piece[i])], 1, 1};
  }
  heap.clear();
  for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) add_candidate(workspace, i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Workspace::Candidate best = heap.back();
    heap.pop_back();
    Workspace::Symbol& left = symbols[best.begin];
    // Symbols only grow: the pair is the one that was entered if it still covers the same bytes.
    if (left.length == 0 || left.length >= best.length) continue;
    Workspace::Symbol& right = symbols[best.begin + left.length];
    if (left.length + right.length != best.length) continue;
    right.length = 0;
    left.token = best.result;
    left.length = best.length;
    const std::uint32_t next = best.begin + left.length;
    if (next < symbols.size()) {
      symbols[next].previous_length = left.length;
      if (add_candidate(workspace, best.begin)) std::push_heap(heap.begin(), heap.end(), later);
    }
    if (best.begin > 0 && add_candidate(workspace, best.begin - left.previous_length)) {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  for (std::size_t i = 0; i < symbols.size(); i += symbols[i].length)
    out.push_back(symbols[i].token);
}

bool BytePairEncoder::add_candidate(Workspace& workspace, std::uint32_t begin) const {
  const Workspace::Symbol& left = workspace.symbols[begin];
  const Workspace::Symbol& right = workspace.symbols[begin + left.length];
  const auto any = [](const Rule&) { return true; };
  const Rule* rule = rules_.find(pair_key(left.token, right.token), any);
  if (rule == nullptr) return false;
  workspace.heap.push_back({rule->rank, begin, left.length + right.length, rule->result});
  return true;
}

}  // namespace dgap::engine
