#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "synthetic_trace.hpp"
#include "tests/testing/message_of.hpp"
#include "trace_equality.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using testing::make_synthetic;
using testing::message_of;
using testing::SyntheticTrace;
using testing::TemporaryFolder;

class TraceSetTest : public ::testing::Test {
 protected:
  void write(const SyntheticTrace& a, const SyntheticTrace& b) {
    first_ = make_synthetic(a), second_ = make_synthetic(b);
    write_trace_part(folder_ / "part-00000.h5", first_);
    write_trace_part(folder_ / "part-00001.h5", second_);
    write_trace_index(folder_.path(), {"part-00000.h5", "part-00001.h5"});
  }
  TemporaryFolder folder_;
  TracePart first_, second_;
};

TEST_F(TraceSetTest, IndexSaysWhatIsThere) {
  write({.seed = 1}, {.seed = 2});
  const auto index = nlohmann::json::parse(base::read_file(folder_ / "index.json"));
  EXPECT_EQ(index["format"], "dgap-trace-index");
  EXPECT_EQ(index["version"], 1);
  ASSERT_EQ(index["parts"].size(), 2u);
  EXPECT_EQ(index["parts"][1]["file"], "part-00001.h5");
  EXPECT_EQ(index["parts"][1]["steps"], second_.steps());
  EXPECT_EQ(index["parts"][1]["sha256"],
            base::sha256_hex(base::read_file(folder_ / "part-00001.h5")));
}

TEST_F(TraceSetTest, ReadsParts) {
  write({.seed = 1}, {.seed = 2});
  const TraceSet set(folder_.path());
  ASSERT_EQ(set.parts(), 2u);
  EXPECT_EQ(set.steps(), first_.steps() + second_.steps());
  EXPECT_EQ(set.header(), first_.header);
  EXPECT_EQ(set.precisions(), (std::vector<std::string>{"K2V2", "K1V1-R32"}));
  testing::expect_equal(set.read(0), first_);
  testing::expect_equal(set.read(1), second_);
}

// What a split gives is what one part of these units alone would hold.
TEST_F(TraceSetTest, JoinsTheUnitsOfASplit) {
  write({.splits = {"train", "test", "train"}, .full = true, .with_hidden = true, .seed = 1},
        {.splits = {"test", "train"}, .full = true, .with_hidden = true, .seed = 2});
  const TraceSelection everything{{}, true, true, true};
  const TracePart test = TraceSet(folder_.path()).read_split("test", everything);
  ASSERT_EQ(test.units.size(), 2u);
  write_trace_part(folder_ / "joined.h5", test);  // valid as it stands
  testing::expect_equal(read_trace_part(folder_ / "joined.h5", everything), test);
  const TraceUnit &from = first_.units[1], &to = test.units[0];
  EXPECT_EQ(to.book, from.book);
  EXPECT_EQ(to.first_step, 0);
  EXPECT_EQ(to.first_token, 0);
  EXPECT_EQ(test.units[1].first_step, from.steps);
  EXPECT_EQ(test.units[1].book, second_.units[0].book);
  for (std::int64_t t = 0; t < from.steps; ++t) {
    const std::int64_t s = from.first_step + t;
    EXPECT_EQ(test.step_target[t], first_.step_target[s]);
    EXPECT_EQ(test.columns[1].kl[t], first_.columns[1].kl[s]);
    EXPECT_EQ(test.columns[1].top_ids[t * 7 + 3], first_.columns[1].top_ids[s * 7 + 3]);
    EXPECT_EQ(test.columns[1].logits[t * 50 + 49], first_.columns[1].logits[s * 50 + 49]);
    EXPECT_EQ(test.columns[1].hidden[t * 6 + 5], first_.columns[1].hidden[s * 6 + 5]);
    const std::int64_t a = test.reference.candidate_first[t],
                       b = first_.reference.candidate_first[s];
    EXPECT_EQ(test.reference.candidate_ids[a], first_.reference.candidate_ids[b]);
    EXPECT_EQ(test.columns[0].candidate_ranks[a], first_.columns[0].candidate_ranks[b]);
  }
  EXPECT_EQ(TraceSet(folder_.path()).read_split("").units.size(), 5u);
}

TEST_F(TraceSetTest, BitsAreMeansOverUnits) {
  first_ = make_synthetic({.splits = {"train"}}),
  second_ = make_synthetic({.splits = {"train", "train", "train"}});
  first_.precisions[0].total_bits_per_element_key = 2.0;
  second_.precisions[0].total_bits_per_element_key = 4.0;
  write_trace_part(folder_ / "a.h5", first_);
  write_trace_part(folder_ / "b.h5", second_);
  write_trace_index(folder_.path(), {"a.h5", "b.h5"});
  const TracePart all = TraceSet(folder_.path()).read_split("train");
  EXPECT_DOUBLE_EQ(all.precisions[0].total_bits_per_element_key, 3.5);
  EXPECT_DOUBLE_EQ(all.precisions[0].bits_per_element_key,
                   first_.precisions[0].bits_per_element_key);
}

TEST_F(TraceSetTest, RefusesPartsWithOtherColumns) {
  first_ = make_synthetic(), second_ = make_synthetic({.seed = 2});
  for (PrecisionColumns& c : first_.columns) c.served_lse = c.lse, c.served_entropy = c.entropy;
  write_trace_part(folder_ / "a.h5", first_);
  write_trace_part(folder_ / "b.h5", second_);
  write_trace_index(folder_.path(), {"a.h5", "b.h5"});
  const TraceSet set(folder_.path());
  EXPECT_THAT(message_of([&] { set.read_split(""); }),
              HasSubstr("b.h5: has not the same columns as the parts before"));
}

TEST_F(TraceSetTest, RefusesPartsOfOtherRuns) {
  first_ = make_synthetic(), second_ = make_synthetic({.seed = 2});
  second_.header.cpu_isa = "avx512";
  write_trace_part(folder_ / "a.h5", first_);
  write_trace_part(folder_ / "b.h5", second_);
  write_trace_index(folder_.path(), {"a.h5", "b.h5"});
  EXPECT_THAT(message_of([&] { TraceSet set(folder_.path()); }),
              HasSubstr("b.h5: is of another run than a.h5 (cpu_isa: avx2 and avx512)"));
  second_.header = first_.header;
  second_.precisions[0].scheme_json = "{}";
  std::filesystem::remove(folder_ / "b.h5");
  write_trace_part(folder_ / "b.h5", second_);
  write_trace_index(folder_.path(), {"a.h5", "b.h5"});
  EXPECT_THAT(message_of([&] { TraceSet set(folder_.path()); }),
              HasSubstr("b.h5: has other precisions than a.h5"));
}

TEST_F(TraceSetTest, NoticesAlteredAndMissingParts) {
  write({.seed = 1}, {.seed = 2});
  std::filesystem::remove(folder_ / "part-00001.h5");
  write_trace_part(folder_ / "part-00001.h5",
                   make_synthetic({.seed = 3}));  // as long, and well-formed
  const TraceSet set(folder_.path());
  EXPECT_NO_THROW(set.read(0));
  EXPECT_THAT(message_of([&] { set.read(1); }),
              HasSubstr("part-00001.h5: has been altered: SHA-256"));
  std::filesystem::remove(folder_ / "part-00001.h5");
  EXPECT_THAT(message_of([&] { TraceSet again(folder_.path()); }),
              HasSubstr("part-00001.h5: cannot be opened"));
}

TEST_F(TraceSetTest, NoticesDamagedIndices) {
  write({.seed = 1}, {.seed = 2});
  const std::string good = base::read_file(folder_ / "index.json");
  const auto with = [&](const std::string& text) {
    testing::write_bytes(folder_ / "index.json", text);
    return message_of([&] { TraceSet set(folder_.path()); });
  };
  EXPECT_THAT(with(good), HasSubstr("no error"));
  EXPECT_THAT(with(""), HasSubstr("index.json: is not an index of traces"));
  EXPECT_THAT(with("[1]"), HasSubstr("is not an index of traces"));
  EXPECT_THAT(with(good.substr(0, good.size() / 2)), HasSubstr("is not an index of traces"));
  EXPECT_THAT(with(R"({"format": "dgap-trace-index", "version": 2, "parts": []})"),
              HasSubstr("has version 2"));
  EXPECT_THAT(with(R"({"format": "dgap-trace-index", "version": 1, "parts": []})"),
              HasSubstr("lists no parts"));
  EXPECT_THAT(with(R"({"format": "dgap-trace-index", "version": 1, "parts": [{"file": "x"}]})"),
              HasSubstr("parts[0]: expected an object"));
  EXPECT_THAT(with(R"({"format": "dgap-trace-index", "version": 1,
                       "parts": [{"file": "../x.h5", "steps": 1, "sha256": ""}]})"),
              HasSubstr("is not the name of a file in this folder"));
  EXPECT_THAT(with(std::string(100'000, '[')), HasSubstr("is not an index of traces"));
  std::filesystem::remove(folder_ / "index.json");
  EXPECT_THAT(message_of([&] { TraceSet set(folder_.path()); }),
              HasSubstr("run `dgap collect` first"));
}

TEST_F(TraceSetTest, SplitWithoutUnits) {
  write({.seed = 1}, {.seed = 2});
  EXPECT_THAT(message_of([&] { TraceSet(folder_.path()).read_split("validation"); }),
              HasSubstr("has no units of split \"validation\""));
}

}  // namespace
}  // namespace dgap::schemas
