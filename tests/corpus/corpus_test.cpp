#include "corpus/corpus.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "corpus/csv.hpp"
#include "corpus/plain_text.hpp"
#include "tests/corpus/corpus_folder.hpp"
#include "tests/testing/message_of.hpp"

namespace dgap::corpus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::RecordingProgress;
using testing::TemporaryFolder;
using testing::write_text;

std::vector<std::vector<std::string>> fields_of(std::string_view text) {
  std::vector<std::vector<std::string>> fields;
  for (const CsvRow& row : parse_csv(text, "m.csv")) fields.push_back(row.fields);
  return fields;
}

TEST(Csv, QuotesCommasAndLineEnds) {
  EXPECT_THAT(
      fields_of("1,Emma,1815,u\r\n2,\"Dombey, and \"\"Son\"\"\",1848,\n\n3,\"two\nlines\",,x"),
      ElementsAre(ElementsAre("1", "Emma", "1815", "u"),
                  ElementsAre("2", "Dombey, and \"Son\"", "1848", ""),
                  ElementsAre("3", "two\nlines", "", "x")));
  EXPECT_THAT(fields_of(""), IsEmpty());
  EXPECT_THAT(fields_of("\r\n\n"), IsEmpty());
}

TEST(Csv, NamesTheLineOfAFault) {
  EXPECT_EQ(message_of([] { parse_csv("a,b\n\"x\ny\",z\nc,\"open\n", "m.csv"); }),
            "m.csv:4: a quote that is never closed");
  EXPECT_EQ(message_of([] { parse_csv("a,b\nc,d\"e\n", "m.csv"); }),
            "m.csv:2: a quote inside a field without quotes");
  EXPECT_EQ(message_of([] { parse_csv("\"a\"b,c", "m.csv"); }),
            "m.csv:1: text after a closing quote");
  EXPECT_EQ(parse_csv("a\n\"x\ny\"\nz", "m.csv").back().line, 4u);
}

class CorpusTest : public ::testing::Test {
 protected:
  std::string read(std::string_view bytes) {
    write_text(folder_ / "book.txt", bytes);
    return read_plain_text(folder_ / "book.txt").text;
  }
  std::string refusal(std::string_view bytes) {
    return message_of([&] { read(bytes); });
  }
  schemas::CorpusConfig corpus() const {
    schemas::CorpusConfig config;
    config.path = folder_.path().string();
    return config;
  }
  TemporaryFolder folder_;
  RecordingProgress progress_;
};

TEST_F(CorpusTest, ByteOrderMarkAndLineEndsDoNotMatter) {
  const std::string plain = "It is a truth\n\nuniversally “acknowledged”\n";
  EXPECT_EQ(read(plain), plain);
  EXPECT_EQ(read("\xef\xbb\xbfIt is a truth\r\n\r\nuniversally “acknowledged”\r\n"), plain);
  EXPECT_EQ(read("\xef\xbb\xbf"), "");
  EXPECT_EQ(read("a\rb\r\r\nc\r"), "a\rb\r\nc\r");  // a lone CR is not a line end
}

TEST_F(CorpusTest, NamesTheByteThatIsNotUtf8) {
  const std::string message = refusal("one\r\ntwo \xa3 pounds\n");
  EXPECT_THAT(message, HasSubstr("book.txt:2: byte 9 is not UTF-8"));
  EXPECT_THAT(message, HasSubstr("iconv"));
  EXPECT_THAT(refusal("\xff\xfe\x41"), HasSubstr("book.txt:1: byte 0 is not UTF-8"));
  EXPECT_THAT(refusal(std::string("ab\n\0c", 5)), HasSubstr("book.txt:2: byte 3 is NUL"));
}

TEST_F(CorpusTest, BooksInOrderOfSplitAndName) {
  testing::write_corpus(folder_.path());
  write_text(folder_ / "train/notes.md", "no book");
  std::vector<std::string> names;
  for (const Book& book : list_books(corpus(), progress_))
    names.push_back(book.split + "/" + book.name);
  EXPECT_THAT(names, ElementsAre("train/20", "train/3", "validation/7", "test/1"));
  EXPECT_THAT(progress_.warnings_, IsEmpty());
}

TEST_F(CorpusTest, SplitsByWhateverTheirFoldersAreCalled) {
  testing::write_corpus(folder_.path());
  std::filesystem::rename(folder_ / "validation", folder_ / "dev");
  schemas::CorpusConfig config = corpus();
  config.splits.validation = "dev";
  EXPECT_EQ(list_books(config, progress_)[2].split, "validation");
  config.splits.validation = "missing";
  EXPECT_THAT(message_of([&] { list_books(config, progress_); }),
              HasSubstr("missing: cannot be listed: No such file or directory (corpus.path, "
                        "corpus.splits.validation)"));
  config.sites_per_book.validation = 0;  // then it is not needed
  EXPECT_EQ(list_books(config, progress_).size(), 3u);
  std::filesystem::create_directory(folder_ / "empty");
  config.splits.test = "empty";
  EXPECT_THAT(message_of([&] { list_books(config, progress_); }),
              HasSubstr("empty: holds no books"));
  config.layout = "gutenberg";
  EXPECT_THAT(message_of([&] { list_books(config, progress_); }),
              HasSubstr("corpus.layout: \"gutenberg\""));
}

TEST_F(CorpusTest, ABookInTwoSplits) {
  testing::write_corpus(folder_.path());
  write_text(folder_ / "test/20.txt", "another text");
  EXPECT_THAT(message_of([&] { list_books(corpus(), progress_); }),
              HasSubstr("a book belongs to one split"));
  std::filesystem::remove(folder_ / "test/20.txt");
  schemas::CorpusConfig same = corpus();
  same.splits.validation = "train";
  EXPECT_THAT(message_of([&] { list_books(same, progress_); }),
              HasSubstr("a book belongs to one split"));
}

TEST_F(CorpusTest, MetadataIsComparedWithTheBooks) {
  testing::write_corpus(folder_.path());
  write_text(folder_ / "metadata.csv",
             "\xef\xbb\xbf"
             "20,\"A, B\",1900,u\n3,C,1901,u\n1,D,1902,u\n3,C,1901,u\n");
  list_books(corpus(), progress_);
  EXPECT_THAT(progress_.warnings_,
              ElementsAre(HasSubstr("metadata.csv:4: book 3 is described twice"),
                          HasSubstr("metadata.csv: has no row for ")));
  write_text(folder_ / "metadata.csv", "20,\"A\n");
  EXPECT_THAT(message_of([&] { list_books(corpus(), progress_); }),
              HasSubstr("metadata.csv:1: a quote that is never"));
}

}  // namespace
}  // namespace dgap::corpus
