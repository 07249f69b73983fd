#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "base/random.hpp"
#include "schemas/config/config.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::testing {

inline void write_text(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// Letters and spaces, always the same for a seed.
inline std::string random_text(std::size_t length, std::uint64_t seed) {
  base::Random random(seed, "text");
  std::string text;
  while (text.size() < length)
    text += static_cast<char>(random.below(6) == 0 ? ' ' : 'a' + random.below(26));
  return text;
}

/// Two training books, one each for validation and test.
inline void write_corpus(const std::filesystem::path& root) {
  write_text(root / "train/20.txt", random_text(400, 1));
  write_text(root / "train/3.txt", random_text(300, 2));
  write_text(root / "validation/7.txt", random_text(350, 3));
  write_text(root / "test/1.txt", random_text(280, 4));
}

/// Remembers what it was told.
class RecordingProgress : public base::Progress {
 public:
  void begin(std::string_view, std::int64_t total, std::string_view) override { total_ = total; }
  void advance(std::int64_t done) override { done_ += done; }
  void info(std::string_view message) override { infos_.emplace_back(message); }
  void warn(std::string_view message) override { warnings_.emplace_back(message); }

  std::int64_t total_ = 0, done_ = 0;
  std::vector<std::string> infos_, warnings_;
};

/// A small collection over write_corpus().
inline schemas::Config small_config(const std::filesystem::path& folder) {
  schemas::Config config;
  config.run.name = "small";
  config.run.dir = (folder / "runs").string();
  config.model.path = "none.gguf";
  config.corpus.path = (folder / "corpus").string();
  config.corpus.context_lengths = {20};
  config.corpus.decode_steps = 10;
  config.corpus.sites_per_book = {2, 2, 2};
  config.corpus.front_matter = 30;
  config.precisions = {schemas::preset("K2V2"), schemas::preset("K1V1-R32"),
                       schemas::preset("exact")};
  config.decode.block = 4;
  config.trace.top = 9;
  config.trace.units_per_part = 2;
  config.window.cap = 8;
  return config;
}

}  // namespace dgap::testing
