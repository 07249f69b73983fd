#include "corpus/vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "base/error.hpp"

namespace dgap::corpus {
namespace {

constexpr std::size_t kWords = 4;  // in a row that the halves must not share

/// Every run of kWords words of a text, lower case, placeholders left out.
void add_runs(std::string_view text, std::set<std::string>& runs) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  }
  std::erase_if(words, [](const auto& w) { return w.empty() || w == "key" || w == "value"; });
  for (std::size_t i = 0; i + kWords <= words.size(); ++i) {
    std::string run;
    for (std::size_t j = i; j < i + kWords; ++j) run += words[j] + " ";
    runs.insert(run);
  }
}

std::set<std::string> runs_of(const Vocabulary& vocabulary) {
  std::set<std::string> runs;
  for (const Form& form : vocabulary.forms) {
    for (const std::string_view text : {form.intro, form.needle, form.question, form.reply})
      add_runs(text, runs);
  }
  for (const std::string_view text : vocabulary.noise) add_runs(text, runs);
  return runs;
}

TEST(Vocabularies, ShareNoKeyAndNoWording) {
  const Vocabulary &a = calibration_vocabulary(), &b = evaluation_vocabulary();
  for (const std::string_view key : a.keys)
    EXPECT_EQ(std::count(b.keys.begin(), b.keys.end(), key), 0) << key;
  const std::set<std::string> runs_a = runs_of(a), runs_b = runs_of(b);
  std::vector<std::string> shared;
  std::set_intersection(runs_a.begin(), runs_a.end(), runs_b.begin(), runs_b.end(),
                        std::back_inserter(shared));
  for (const std::string& run : shared) ADD_FAILURE() << run;
  EXPECT_GT(runs_a.size(), 60u);
  EXPECT_GT(runs_b.size(), 60u);
}

TEST(Vocabularies, AreCompleteAndFitTheirForms) {
  for (const Vocabulary* vocabulary : {&calibration_vocabulary(), &evaluation_vocabulary()}) {
    std::set<Kind> kinds;
    for (const Form& form : vocabulary->forms) {
      kinds.insert(form.kind);
      EXPECT_NE(form.needle.find("{value}"), form.needle.npos) << form.needle;
      EXPECT_LE(form.asked, form.needles);
      EXPECT_LE(static_cast<std::size_t>(form.needles), vocabulary->keys.size());
      EXPECT_LE(form.value.shortest, form.value.longest);
      if (form.kind == Kind::count) {
        EXPECT_NE(form.question.find("{value}"), form.question.npos);
      } else {
        EXPECT_EQ(form.question.find("{value}"), form.question.npos);
        EXPECT_FALSE(form.reply.empty());
      }
      const bool names_key = form.question.find("{key}") != form.question.npos;
      EXPECT_EQ(names_key, form.kind != Kind::passkey && form.kind != Kind::count) << form.question;
      const bool before = form.needle.find("{value}") < form.needle.find("{key}");
      EXPECT_TRUE(before || form.kind != Kind::reversed) << form.needle;
    }
    EXPECT_EQ(kinds.size(), kKindNames.size()) << vocabulary->name;
    for (const std::string_view sentence : vocabulary->noise)
      EXPECT_NE(sentence.find("{value}"), sentence.npos);
    const std::set<std::string_view> keys(vocabulary->keys.begin(), vocabulary->keys.end());
    EXPECT_EQ(keys.size(), vocabulary->keys.size());
  }
}

TEST(Kinds, HaveNames) {
  for (const std::string_view name : kKindNames) EXPECT_EQ(name_of(kind_of(name)), name);
  EXPECT_THROW(kind_of("needle"), base::UsageError);
}

}  // namespace
}  // namespace dgap::corpus
