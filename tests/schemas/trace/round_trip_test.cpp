#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "base/files.hpp"
#include "synthetic_trace.hpp"
#include "tests/testing/message_of.hpp"
#include "trace_equality.hpp"

namespace dgap::schemas {
namespace {

using testing::expect_equal;
using ::testing::HasSubstr;
using testing::make_synthetic;
using testing::message_of;
using testing::SyntheticTrace;
using testing::TemporaryFolder;

const TraceSelection kEverything{{}, true, true, true};

TEST(RoundTrip, Compact) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic();
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5"), part);
  EXPECT_FALSE(std::filesystem::exists(folder / "part.h5.partial"));
}

TEST(RoundTrip, FullWithHiddenStates) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.full = true, .with_hidden = true});
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5", kEverything), part);
}

TEST(RoundTrip, WhatTheRuntimeHas) {
  const TemporaryFolder folder;
  TracePart part = make_synthetic();
  for (PrecisionColumns& c : part.columns) {
    for (const double lse : c.lse) c.served_lse.push_back(lse + 1e-9);
    for (const float entropy : c.entropy) c.served_entropy.push_back(entropy + 1e-6f);
  }
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5"), part);
}

TEST(RoundTrip, ColumnsThatAreNotAskedForStayEmpty) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.full = true, .with_hidden = true});
  write_trace_part(folder / "part.h5", part);
  const TracePart some = read_trace_part(folder / "part.h5", {{"K1V1-R32"}, false, false, false});
  ASSERT_EQ(some.precisions.size(), 1u);
  testing::expect_equal(some.precisions[0], part.precisions[1]);
  EXPECT_EQ(some.columns[0].top_ids, part.columns[1].top_ids);
  EXPECT_TRUE(some.columns[0].hidden.empty());
  EXPECT_TRUE(some.columns[0].logits.empty());
  EXPECT_TRUE(some.columns[0].candidate_ranks.empty());
  EXPECT_TRUE(some.reference.candidate_first.empty());
  EXPECT_TRUE(some.reference.candidate_ids.empty());
  EXPECT_TRUE(some.reference.logits.empty());
  EXPECT_THAT(message_of([&] { read_trace_part(folder / "part.h5", {.precisions = {"K4V4"}}); }),
              HasSubstr("precisions/K4V4: is not in this trace, which has K2V2 and K1V1-R32"));
}

TEST(RoundTrip, NoCandidatesAtAll) {
  const TemporaryFolder folder;
  TracePart part = make_synthetic();
  part.reference.candidate_first.assign(part.steps() + 1, 0);
  part.reference.candidate_ids.clear();
  part.reference.candidate_logits.clear();
  for (PrecisionColumns& c : part.columns) c.candidate_ranks.clear(), c.candidate_logits.clear();
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5"), part);
}

TEST(RoundTrip, WholeVocabularyAsTop) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.vocab = 5, .top = 5});
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5"), part);
}

// Attributes end at 64 KiB; the configuration must not.
TEST(RoundTrip, LongConfiguration) {
  const TemporaryFolder folder;
  std::string config;
  while (config.size() < 100'000) config += "key_" + std::to_string(config.size()) + ": \"wäre\"\n";
  const TracePart part = make_synthetic({.config = config});
  write_trace_part(folder / "part.h5", part);
  EXPECT_EQ(read_trace_part(folder / "part.h5").config_yaml, config);
}

// Several chunks per dataset, rows that do not divide evenly.
TEST(RoundTrip, ManyChunks) {
  const TemporaryFolder folder;
  SyntheticTrace wish{.vocab = 900, .top = 900, .full = true};
  wish.splits.assign(26, "train");
  const TracePart part = make_synthetic(wish);
  write_trace_part(folder / "part.h5", part);
  expect_equal(read_trace_part(folder / "part.h5", kEverything), part);
}

TEST(RoundTrip, SameDataGiveTheSameBytes) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.full = true, .with_hidden = true});
  write_trace_part(folder / "a.h5", part);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a time stamp would differ
  std::vector<double> disturbance(100'000, 1.5);                 // and so would old heap contents
  disturbance.clear();
  write_trace_part(folder / "b.h5", part);
  EXPECT_EQ(base::read_file(folder / "a.h5"), base::read_file(folder / "b.h5"));
}

TEST(Writing, NeverTouchesAnExistingFile) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic();
  write_trace_part(folder / "part.h5", part);
  const std::string before = base::read_file(folder / "part.h5");
  EXPECT_THAT(
      message_of([&] { write_trace_part(folder / "part.h5", make_synthetic({.seed = 2})); }),
      HasSubstr("part.h5: exists already and is never overwritten"));
  EXPECT_EQ(base::read_file(folder / "part.h5"), before);
  EXPECT_FALSE(std::filesystem::exists(folder / "part.h5.partial"));
}

TEST(Writing, LeavesAnothersPartialFileAlone) {
  const TemporaryFolder folder;
  testing::write_bytes(folder / "part.h5.partial", "another's");
  EXPECT_THAT(message_of([&] { write_trace_part(folder / "part.h5", make_synthetic()); }),
              HasSubstr("part.h5.partial: exists already: another process is writing it"));
  EXPECT_EQ(base::read_file(folder / "part.h5.partial"), "another's");
  EXPECT_FALSE(std::filesystem::exists(folder / "part.h5"));
}

TEST(Writing, OfTwoProcessesOneWins) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.full = true});
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 0;
      try {
        write_trace_part(folder / "part.h5", part);
      } catch (const base::IoError&) {
        status = 74;
      }
      std::_Exit(status);
    }
    children.push_back(child);
  }
  int winners = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 74);
    winners += WEXITSTATUS(status) == 0;
  }
  EXPECT_EQ(winners, 1);
  expect_equal(read_trace_part(folder / "part.h5", kEverything), part);
}

// A full disk shows as a failing write at any depth of HDF5, also while it closes the file.
TEST(Writing, FullDisk) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.full = true});
  write_trace_part(folder / "whole.h5", part);
  const auto bytes = std::filesystem::file_size(folder / "whole.h5");
  std::vector<std::uint64_t> limits = {0, 1, 100, 800, bytes - 1};
  for (std::uint64_t limit = 2048; limit < bytes; limit += 4099) limits.push_back(limit);
  for (const std::uint64_t limit : limits) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &small);
      int status = 0;
      try {
        write_trace_part(folder / "part.h5", part);
      } catch (const base::IoError&) {
        status = 74;
      }
      std::exit(status);  // lets HDF5 clean up, which must not crash either
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 74)
        << limit << " of " << bytes << ": " << status;
    EXPECT_FALSE(std::filesystem::exists(folder / "part.h5"));
    EXPECT_FALSE(std::filesystem::exists(folder / "part.h5.partial"));
  }
}

TEST(Writing, RefusesWhatReadersWouldRefuse) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::function<void(TracePart&)>>> faults = {
      {"reference/lse: value 3 is nan", [](TracePart& p) { p.reference.lse[3] = std::nan(""); }},
      {"precisions/K2V2/kl: value 0 is inf", [](TracePart& p) { p.columns[0].kl[0] = HUGE_VALF; }},
      {"precisions/K2V2/top: value 2 is out of order",
       [](TracePart& p) {
         std::swap(p.columns[0].top_logits[1], p.columns[0].top_logits[2]);
         p.columns[0].top_logits[1] -= 1.0f;
       }},
      {"reference/top/ids: value 0 is 50, outside [0, 50)",
       [](TracePart& p) { p.reference.top_ids[0] = 50; }},
      {"precisions/K1V1-R32/candidates/ranks: value 1 is -1",
       [](TracePart& p) { p.columns[1].candidate_ranks[1] = -1; }},
      {"reference/candidates/first: row 2",
       [](TracePart& p) { p.reference.candidate_first[2] = 0; }},
      {"reference/candidates/first: does not run from 0",
       [](TracePart& p) { p.reference.candidate_first.back() += 1; }},
      {"reference/candidates/first: is missing",
       [](TracePart& p) {
         p.reference.candidate_first.clear(), p.reference.candidate_ids.clear(),
             p.reference.candidate_logits.clear();
         for (PrecisionColumns& c : p.columns)
           c.candidate_ranks.clear(), c.candidate_logits.clear();
       }},
      {"steps/target: row 4: is not the unit's next token",
       [](TracePart& p) { p.step_target[4] = (p.step_target[4] + 1) % 50; }},
      {"steps/position: row 0", [](TracePart& p) { p.step_position[0] = 0; }},
      {"units/first_step: row 1", [](TracePart& p) { p.units[1].first_step = 0; }},
      {"tokens: has", [](TracePart& p) { p.tokens.pop_back(); }},
      {"precisions/K2V2/entropy: has 17 values, expected 18",
       [](TracePart& p) { p.columns[0].entropy.pop_back(); }},
      {"precisions/K2V2/hidden: has 1 values", [](TracePart& p) { p.columns[0].hidden = {0}; }},
      {"vocab_size: is 0", [](TracePart& p) { p.header.vocab_size = 0; }},
      {"bits_per_element_key is not a size",
       [](TracePart& p) { p.precisions[0].bits_per_element_key = std::nan(""); }},
      {"precision \".\": names", [](TracePart& p) { p.precisions[0].name = "."; }},
      {"precision \"a/b\": names", [](TracePart& p) { p.precisions[0].name = "a/b"; }},
      {"@compute: text with NUL bytes",
       [](TracePart& p) { p.header.compute = std::string("a\0b", 3); }},
      {"units/book: text with NUL bytes or invalid UTF-8",
       [](TracePart& p) { p.units[0].book = "\xe9"; }},
  };
  for (const auto& [expected, spoil] : faults) {
    TracePart part = make_synthetic();
    spoil(part);
    EXPECT_THAT(message_of([&] { write_trace_part(folder / "part.h5", part); }),
                HasSubstr(expected));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << expected;
  }
}

TEST(Locking, NamesTheFileSystemAndTheVariable) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "part.h5";
  write_trace_part(path, make_synthetic());
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const std::string message = message_of([&] { read_trace_part(path); });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, HasSubstr("errno = 11"));
  EXPECT_THAT(message, HasSubstr("HDF5_USE_FILE_LOCKING=FALSE"));
  std::ifstream mounts("/proc/self/mounts");
  const std::string table{std::istreambuf_iterator<char>(mounts), {}};
  if (table.find(" / ") != std::string::npos) {  // a chroot does not see what it stands on
    EXPECT_THAT(message, ::testing::Not(HasSubstr("(unknown)")));
  }
  ::close(fd);
  EXPECT_NO_THROW(read_trace_part(path));
}

}  // namespace
}  // namespace dgap::schemas
