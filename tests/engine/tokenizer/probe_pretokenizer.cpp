// probe_pretokenizer TAG TEXT OUTPUT: lengths in bytes of the pieces of a text file, as int32.
#include <cstdint>
#include <fstream>

#include "base/files.hpp"
#include "engine/tokenizer/pretokenizer.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const dgap::engine::PreTokenizer pretokenizer(dgap::engine::split_of_tag(argv[1]).steps);
  const std::string text = dgap::base::read_file(argv[2]);
  std::ofstream out(argv[3], std::ios::binary);
  dgap::engine::PieceCursor cursor(pretokenizer);
  cursor.start(text);
  for (std::string_view piece = cursor.next(); !piece.empty(); piece = cursor.next()) {
    const auto size = static_cast<std::int32_t>(piece.size());
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
  }
  return 0;
}
