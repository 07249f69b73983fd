#include "engine/tokenizer/byte_pair_encoder.hpp"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <span>

#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::size_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

bool is_mark(std::string_view text, std::size_t at) {
  return text[at] == kSpaceMark[0] && text.substr(at).starts_with(kSpaceMark);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const BytePairModel& model) : model_(model) {
  index_units();
  rules_.reserve(model.merges.size());
  for (const Merge& merge : model.merges) {
    rules_.insert(pair_key(merge.left, merge.right), Rule{merge.rank, merge.result});
  }
  index_whole_pieces();
  index_cuts();
}

void BytePairEncoder::index_units() {
  const auto is_unit = [&](const std::string& piece) {
    return !piece.empty() && piece.size() == unit_length(piece[0]);
  };
  byte_units_.fill(-1);
  long_units_.reserve(
      static_cast<std::size_t>(std::count_if(model_.pieces.begin(), model_.pieces.end(), is_unit)));
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const std::string& piece = model_.pieces[i];
    if (!is_unit(piece)) continue;
    const auto id = static_cast<std::int32_t>(i);
    if (piece.size() == 1) {
      byte_units_[static_cast<unsigned char>(piece[0])] = id;
    } else {
      long_units_.insert(hash_bytes(piece), id);
    }
  }
  encodes_everything_ =
      model_.byte_tokens[0] >= 0 || model_.unknown >= 0 ||
      (model_.units == BytePairModel::Units::bytes &&
       std::find(byte_units_.begin(), byte_units_.end(), -1) == byte_units_.end());
}

/// Most pieces of ordinary text are one token, which a look-up finds at once. It is exact, because
/// only tokens are entered that merging their own units leads to.
void BytePairEncoder::index_whole_pieces() {
  const std::size_t count = model_.pieces.size();
  std::vector<char> entered(count, 0);
  const auto check = [&](const oneapi::tbb::blocked_range<std::size_t>& range) {
    Workspace workspace;
    std::vector<std::int32_t> ids;
    for (std::size_t i = range.begin(); i < range.end(); ++i) {
      const std::string& piece = model_.pieces[i];
      if (piece.empty() || !is_listed(static_cast<std::int32_t>(i))) continue;
      entered[i] = model_.whole_pieces_first;
      if (model_.whole_pieces_first || find_unencodable(piece) != std::string_view::npos) continue;
      ids.clear();
      merge(piece, workspace, ids);
      entered[i] = ids.size() == 1 && ids[0] == static_cast<std::int32_t>(i);
    }
  };
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::size_t>(0, count, 1024), check);
  whole_pieces_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (entered[i] == 0) continue;
    whole_pieces_.insert(hash_bytes(model_.pieces[i]), static_cast<std::int32_t>(i));
  }
}

/// Text without a pre-tokenizer is one piece, but no merge crosses a place between two characters
/// that no token has next to each other. What lies between such places is encoded alone, with the
/// same result. Pairs are told by the bytes that touch; the space mark, which shares its first byte
/// with other characters, apart from them.
void BytePairEncoder::index_cuts() {
  const bool fuses = model_.unknown >= 0 && model_.fuse_unknown && model_.byte_tokens[0] < 0;
  cuts_ = model_.units == BytePairModel::Units::characters && !model_.whole_pieces_first && !fuses;
  if (!cuts_) return;
  for (const std::string& piece : model_.pieces) {
    for (std::size_t at = 1; at < piece.size(); ++at) {
      if (is_continuation(piece[at])) continue;
      const bool mark = is_mark(piece, at);
      const bool in_run = mark && at >= kSpaceMark.size() && is_mark(piece, at - kSpaceMark.size());
      if (!in_run) joined_[mark ? kMarkRow : byte_at(piece, at)][byte_at(piece, at - 1)] = true;
    }
  }
}

std::size_t BytePairEncoder::end_of_part(std::string_view piece, std::size_t begin) const {
  if (!cuts_) return piece.size();
  for (std::size_t at = begin + 1; at < piece.size(); ++at) {
    if (is_continuation(piece[at])) continue;
    const bool mark = is_mark(piece, at);
    if (joined_[mark ? kMarkRow : byte_at(piece, at)][byte_at(piece, at - 1)]) continue;
    const bool in_run = mark && at >= kSpaceMark.size() && is_mark(piece, at - kSpaceMark.size());
    if (!in_run) return at;
  }
  return piece.size();
}

std::size_t BytePairEncoder::unit_length(char first) const {
  return model_.units == BytePairModel::Units::bytes ? 1 : utf8_length(first);
}

std::int32_t BytePairEncoder::token_of_unit(std::string_view unit) const {
  if (unit.size() == 1) return byte_units_[static_cast<unsigned char>(unit[0])];
  const auto same = [&](std::int32_t id) {
    return model_.pieces[static_cast<std::size_t>(id)] == unit;
  };
  const std::int32_t* id = long_units_.find(hash_bytes(unit), same);
  return id == nullptr ? -1 : *id;
}

bool BytePairEncoder::is_listed(std::int32_t token) const {
  return token >= 0 && (model_.first_unlisted < 0 || token < model_.first_unlisted);
}

std::size_t BytePairEncoder::find_unencodable(std::string_view text) const {
  if (encodes_everything_) return std::string_view::npos;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(unit_length(text[at]), text.size() - at);
    if (!is_listed(token_of_unit(text.substr(at, length)))) return at;
    at += length;
  }
  return std::string_view::npos;
}

void BytePairEncoder::encode(std::string_view piece, Workspace& workspace,
                             std::vector<std::int32_t>& out) const {
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t end = end_of_part(piece, begin);
    encode_part(piece.substr(begin, end - begin), workspace, out);
    begin = end;
  }
}

void BytePairEncoder::encode_part(std::string_view part, Workspace& workspace,
                                  std::vector<std::int32_t>& out) const {
  const auto same = [&](std::int32_t id) {
    return model_.pieces[static_cast<std::size_t>(id)] == part;
  };
  const std::uint64_t hash = hash_bytes(part);
  if (const std::int32_t* id = whole_pieces_.find(hash, same)) {
    out.push_back(*id);
  } else if (const auto known = workspace.cache_.find(hash, part); !known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
  } else {
    const std::size_t begin = out.size();
    merge(part, workspace, out);
    workspace.cache_.store(hash, part, std::span(out).subspan(begin));
  }
}

/// Symbols live at the index of their first byte, so that their lengths link them in both
/// directions.
void BytePairEncoder::start(std::string_view piece, Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  symbols.resize(piece.size());
  std::uint32_t previous = 0;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = std::min(unit_length(piece[at]), piece.size() - at);
    symbols[at] = {token_of_unit(piece.substr(at, length)), static_cast<std::uint32_t>(length),
                   previous};
    previous = static_cast<std::uint32_t>(length);
    at += length;
  }
  workspace.heap_.clear();
  for (std::uint32_t at = 0; at + symbols[at].length < piece.size(); at += symbols[at].length) {
    add_candidate(workspace, at);
  }
}

void BytePairEncoder::merge(std::string_view piece, Workspace& workspace,
                            std::vector<std::int32_t>& out) const {
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.begin > b.begin;
  };
  start(piece, workspace);
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
  put(piece, workspace, out);
}

bool BytePairEncoder::add_candidate(Workspace& workspace, std::uint32_t begin) const {
  const Workspace::Symbol& left = workspace.symbols_[begin];
  const Workspace::Symbol& right = workspace.symbols_[begin + left.length];
  const auto any = [](const Rule&) { return true; };
  const Rule* rule = rules_.find(pair_key(left.token, right.token), any);
  if (rule == nullptr) return false;
  workspace.heap_.push_back({rule->rank, begin, left.length + right.length, rule->result});
  ++workspace.candidates_;
  return true;
}

void BytePairEncoder::put(std::string_view piece, const Workspace& workspace,
                          std::vector<std::int32_t>& out) const {
  bool after_unknown = false;
  for (std::size_t at = 0; at < piece.size(); at += workspace.symbols_[at].length) {
    const Workspace::Symbol& symbol = workspace.symbols_[at];
    if (is_listed(symbol.token)) {
      out.push_back(symbol.token);
      after_unknown = false;
    } else if (model_.byte_tokens[0] >= 0) {
      for (const char c : piece.substr(at, symbol.length)) {
        out.push_back(model_.byte_tokens[static_cast<unsigned char>(c)]);
      }
    } else {
      if (!after_unknown || !model_.fuse_unknown) out.push_back(model_.unknown);
      after_unknown = true;
    }
  }
}

}  // namespace dgap::engine
