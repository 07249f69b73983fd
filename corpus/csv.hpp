#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dgap::corpus {

struct CsvRow {
  std::size_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;
};

/// RFC 4180: fields in double quotes may hold commas, line breaks and doubled quotes. Lines end in
/// LF or CR LF; empty ones are skipped. IoError naming `where` and the line on an unfinished or
/// misplaced quote.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& where);

}  // namespace dgap::corpus
