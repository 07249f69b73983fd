// The layouts besides pg19: texts, jsonl and chat; and what surrounds a book.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "corpus/corpus.hpp"
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
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::write_text;

class LayoutsTest : public ::testing::Test {
 protected:
  LayoutsTest() { corpus_.path = folder_.path().string(); }
  std::vector<Book> list() { return list_books(corpus_, progress_); }
  std::string refusal() {
    return message_of([&] { list(); });
  }
  PlainText plain(std::string_view bytes) {
    write_text(folder_ / "book.txt", bytes);
    return read_plain_text(folder_ / "book.txt");
  }
  std::map<std::string, std::set<std::string>> names_by_split() {
    std::map<std::string, std::set<std::string>> names;
    for (const Book& book : list()) names[book.split].insert(book.name);
    return names;
  }

  TemporaryFolder folder_;
  RecordingProgress progress_;
  schemas::CorpusConfig corpus_;
};

TEST_F(LayoutsTest, WhatProjectGutenbergPutsAroundABookIsLeftOut) {
  const std::string body = "CHAPTER I.\n\nDown the *** rabbit hole.\n";
  const PlainText newer = plain(
      "\xef\xbb\xbfThe Project Gutenberg eBook of Alice\r\n\r\n*** START OF THE PROJECT GUTENBERG "
      "EBOOK "
      "ALICE ***\r\n\r\n\r\nCHAPTER I.\r\n\r\nDown the *** rabbit hole.\r\n*** END OF THE PROJECT "
      "GUTENBERG EBOOK ALICE ***\r\n\r\n*** START: FULL LICENSE ***\r\nmore\r\n");
  EXPECT_EQ(newer.text, body);
  EXPECT_TRUE(newer.trimmed);
  EXPECT_EQ(
      plain("x\n***START OF THE PROJECT GUTENBERG EBOOK, ALICE***\n" + body +
            "End of the Project Gutenberg EBook of Alice\n\n***END OF THE PROJECT GUTENBERG EBOOK")
          .text,
      body);
  EXPECT_EQ(
      plain("old header\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n" + body)
          .text,
      body);
  const PlainText untouched = plain(body + "*** END OF CHAPTER ***\nPROJECT GUTENBERG is named.\n");
  EXPECT_FALSE(untouched.trimmed);
  EXPECT_EQ(untouched.text, body + "*** END OF CHAPTER ***\nPROJECT GUTENBERG is named.\n");
}

TEST_F(LayoutsTest, MarkersAroundNothingAreAnError) {
  EXPECT_THAT(
      message_of([&] {
        plain(
            "a\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n\n*** END OF THE PROJECT GUTENBERG "
            "EBOOK X ***\nb\n");
      }),
      HasSubstr("book.txt:3: byte 49: there is no text between"));
  EXPECT_THAT(message_of([&] { plain("*** END OF THE PROJECT GUTENBERG EBOOK X ***\n"); }),
              HasSubstr("there is no text between"));
}

TEST_F(LayoutsTest, TextsAreDealtByTheirContents) {
  corpus_.layout = "texts";
  for (int i = 0; i < 20; ++i) {
    write_text(folder_ / ("t" + std::to_string(i) + ".txt"), "text " + std::to_string(i));
  }
  auto names = names_by_split();
  EXPECT_THAT(names["train"], SizeIs(16));
  EXPECT_THAT(names["validation"], SizeIs(2));
  EXPECT_THAT(names["test"], SizeIs(2));
  // Another name changes nothing else; a copy is used once.
  std::filesystem::rename(folder_ / "t3.txt", folder_ / "zzz.txt");
  write_text(folder_ / "copy.txt", "text 5");
  auto again = names_by_split();
  std::size_t all = 0;
  for (const auto& [split, members] : again) {
    for (const std::string& name : members) {
      const std::string before = name == "zzz" ? "t3" : name == "copy" ? "t5" : name;
      EXPECT_TRUE(names[split].contains(before)) << name << " moved to " << split;
      ++all;
    }
  }
  EXPECT_EQ(all, 20u);
  EXPECT_THAT(progress_.warnings_, ElementsAre(HasSubstr("1 texts occur more than once")));
}

TEST_F(LayoutsTest, SharesAreInProportion) {
  corpus_.layout = "texts";
  corpus_.shares = {0.0, 1.0, 3.0};
  for (int i = 0; i < 8; ++i) {
    write_text(folder_ / ("t" + std::to_string(i) + ".txt"), "text " + std::to_string(i));
  }
  auto names = names_by_split();
  EXPECT_THAT(names["train"], IsEmpty());
  EXPECT_THAT(names["validation"], SizeIs(2));
  EXPECT_THAT(names["test"], SizeIs(6));
}

TEST_F(LayoutsTest, JsonLinesByFolderAndByFile) {
  corpus_.layout = "jsonl";
  write_text(folder_ / "train.jsonl",
             "{\"text\": \"one\\ntwo \\u00e9\", \"id\": \"a\"}\r\n\n{\"text\": \"three\", "
             "\"meta\": [1]}\n");
  write_text(folder_ / "validation.jsonl", "{\"text\": \"four\", \"id\": 7}");
  write_text(folder_ / "test.jsonl", "{\"text\": \"five\"}\n");
  const std::vector<Book> books = list();
  ASSERT_THAT(books, SizeIs(4));
  EXPECT_EQ(books[0].name, "a");
  EXPECT_EQ(books[1].name, "train-3");
  EXPECT_EQ(books[2].name, "7");
  EXPECT_EQ(books[2].split, "validation");
  EXPECT_EQ(books[3].split, "test");
  EXPECT_EQ(read_book(corpus_, books[0]).text, "one\ntwo é");
  EXPECT_EQ(read_book(corpus_, books[1]).text, "three");
  EXPECT_THAT(books[1].where(), HasSubstr("train.jsonl:3"));

  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "{\"body\": \"text " + std::to_string(i) + "\"}\n";
  write_text(folder_ / "all.jsonl", lines);
  corpus_.path = (folder_ / "all.jsonl").string();
  corpus_.text_key = "body";
  EXPECT_THAT(list(), SizeIs(10));
  EXPECT_THAT(names_by_split()["validation"], SizeIs(1));
}

TEST_F(LayoutsTest, FaultsOfALineNameFileLineAndKey) {
  corpus_.layout = "jsonl";
  corpus_.path = (folder_ / "x.jsonl").string();
  const auto refused = [&](std::string_view text) {
    write_text(folder_ / "x.jsonl", text);
    return refusal();
  };
  EXPECT_THAT(refused("{\"text\": \"a\"}\n{\"text\": 3}\n"),
              HasSubstr("x.jsonl:2: text: is 3; expected a text"));
  EXPECT_THAT(refused("{\"body\": \"a\"}\n"), HasSubstr("x.jsonl:1: text: is missing"));
  EXPECT_THAT(refused("{\"text\": \"a\"\n"), HasSubstr("x.jsonl:1: is not valid JSON"));
  EXPECT_THAT(refused("{\"text\": \"\xff\"}\n"), HasSubstr("x.jsonl:1: is not valid JSON"));
  EXPECT_THAT(refused("[1]\n"), HasSubstr("x.jsonl:1: does not hold a JSON object"));
  EXPECT_THAT(refused("\n \n"), HasSubstr("holds no lines"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"text\": \"b\"}\n"),
              HasSubstr("x.jsonl:1: has the key \"text\" twice"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"id\": \"\"}\n"), HasSubstr("x.jsonl:1: id: is empty"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"id\": [1]}\n"),
              HasSubstr("x.jsonl:1: id: is [1]; expected an integer"));
  EXPECT_THAT(refused("{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b\", \"id\": \"1\"}\n"),
              HasSubstr("x.jsonl:2: is also"));
  EXPECT_THAT(refused("{\"text\": " + std::string(100000, '[') + "\n"),
              HasSubstr("nested more than 64 deep"));
  corpus_.path = (folder_ / "none.jsonl").string();
  EXPECT_THAT(refusal(), HasSubstr("none.jsonl"));
}

TEST_F(LayoutsTest, AChangedLineIsNoticed) {
  corpus_.layout = "jsonl";
  corpus_.path = (folder_ / "x.jsonl").string();
  write_text(folder_ / "x.jsonl", "{\"text\": \"long enough to be cut\"}\n");
  const std::vector<Book> books = list();
  write_text(folder_ / "x.jsonl", "{}");
  EXPECT_THAT(message_of([&] { read_book(corpus_, books.front()); }), HasSubstr("has changed"));
}

TEST_F(LayoutsTest, ConversationsAreWrittenInTheModelsTemplate) {
  corpus_.layout = "chat";
  corpus_.path = (folder_ / "x.jsonl").string();
  write_text(folder_ / "x.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
             "\"content\": "
             "\"Hello.\"}]}\n");
  EXPECT_EQ(read_book(corpus_, list().front()).text,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n");
  write_text(folder_ / "x.jsonl", "{\"messages\": [{\"role\": \"user\"}]}\n");
  EXPECT_THAT(refusal(), HasSubstr("x.jsonl:1: messages.0.content: is missing"));
  write_text(folder_ / "x.jsonl", "{\"messages\": []}\n");
  EXPECT_THAT(refusal(), HasSubstr("messages: must be a list"));
  write_text(folder_ / "x.jsonl", "{\"messages\": [{\"role\": \"owner\", \"content\": \"x\"}]}\n");
  EXPECT_THAT(refusal(), HasSubstr("x.jsonl:1: role \"owner\" is not one of"));
}

}  // namespace
}  // namespace dgap::corpus
