#include "app/answer.hpp"
#include "app/doctor.hpp"
#include "app/machine.hpp"
#include "helpers.hpp"

namespace dgap::app {
namespace {

using ::testing::HasSubstr;

TEST(Machine, LimitsOfControlGroups) {
  EXPECT_EQ(cpu_quota("200000 100000\n"), 2.0);
  EXPECT_EQ(cpu_quota("150000 100000"), 1.5);
  for (const char* none : {"max 100000\n", "", "-1 100000", "200000", "200000 0", "x y"})
    EXPECT_FALSE(cpu_quota(none)) << none;
  EXPECT_EQ(memory_limit("1073741824\n"), 1073741824);
  EXPECT_FALSE(memory_limit("max\n"));
  EXPECT_FALSE(memory_limit(""));
  EXPECT_EQ(meminfo_bytes("MemTotal:  16 kB\nMemAvailable:   3 kB\n", "MemAvailable"), 3072);
  EXPECT_EQ(meminfo_bytes("MemTotal:  16 kB\n", "MemAvailable"), 0);
}

TEST(Machine, ThisOne) {
  EXPECT_GE(available_threads(), 1);
  const Memory m = memory();
  EXPECT_GT(m.total, 0);
  EXPECT_GT(m.available, 0);
  EXPECT_LE(m.available, m.total);
}

TEST(Machine, LockingIsTestedWhereItIsAsked) {
  const TemporaryFolder folder;
  EXPECT_TRUE(test_locking(folder.path()).works);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(test_locking(folder / "none"), base::IoError);
}

TEST(Doctor, Answers) {
  const TemporaryFolder folder;
  const auto answer = doctor(folder.path());
  EXPECT_EQ(answer["cuda"]["usable"], false);
  EXPECT_EQ(answer["file_system"]["locking"], true);
  EXPECT_GE(answer["threads"]["available"].get<int>(), 1);
  EXPECT_THAT(as_text(answer), HasSubstr("instruction_sets: "));
}

TEST(Answer, AsText) {
  const nlohmann::ordered_json answer = {{"b", 1},
                                         {"long", "text"},
                                         {"list", {1, 2}},
                                         {"none", nlohmann::json::array()},
                                         {"nothing", nullptr},
                                         {"yes", true},
                                         {"map", {{"x", 0.5}, {"y", nlohmann::json::object()}}},
                                         {"items", {{{"k", 1}}, {{"k", 2}}}}};
  EXPECT_EQ(as_text(answer),
            "b:       1\n"
            "long:    text\n"
            "list:    1, 2\n"
            "none:    none\n"
            "nothing: -\n"
            "yes:     yes\n"
            "map:\n"
            "  x: 0.5\n"
            "  y: none\n"
            "items:\n"
            "  k: 1\n"
            "\n"
            "  k: 2\n");
}

}  // namespace
}  // namespace dgap::app
