#include "corpus/csv.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dgap::corpus {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      CsvRow row = next_row();
      if (row.fields.size() > 1 || !row.fields.front().empty()) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  CsvRow next_row() {
    CsvRow row{line_, {}};
    for (;;) {
      row.fields.push_back(at('"') ? quoted() : plain());
      if (at_ == text_.size() || skip_line_end()) return row;
      if (!at(',')) fail(line_, "text after a closing quote");
      ++at_;
    }
  }

  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool skip_line_end() {
    const std::size_t length = text_.substr(at_).starts_with("\r\n") ? 2 : at('\n') ? 1 : 0;
    at_ += length;
    line_ += length > 0;
    return length > 0;
  }

  std::string plain() {
    const std::size_t end = std::min(text_.find_first_of(",\n\"", at_), text_.size());
    if (end < text_.size() && text_[end] == '"')
      fail(line_, "a quote inside a field without quotes");
    std::string_view field = text_.substr(at_, end - at_);
    if (end < text_.size() && text_[end] == '\n' && field.ends_with('\r')) field.remove_suffix(1);
    at_ += field.size();
    return std::string(field);
  }

  std::string quoted() {
    const std::size_t first_line = line_;
    std::string field;
    for (++at_;; ++at_) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == text_.npos) fail(first_line, "a quote that is never closed");
      field += text_.substr(at_, quote - at_);
      at_ = quote + 1;
      if (!at('"')) break;
      field += '"';
    }
    line_ += static_cast<std::size_t>(std::count(field.begin(), field.end(), '\n'));
    return field;
  }

  [[noreturn]] void fail(std::size_t line, const char* what) const {
    throw base::IoError(where_ + ":" + std::to_string(line) + ": " + what);
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& where) {
  return Parser(text, where).rows();
}

}  // namespace dgap::corpus
