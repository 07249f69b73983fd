#include "base/files.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dgap::base {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("dgap-files-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingBehind) {
  const auto path = folder / "a.json";
  write_file_atomically(path, "first");
  write_file_atomically(path, std::string(100'000, 'x'));
  EXPECT_EQ(read_file(path), std::string(100'000, 'x'));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(Files, ErrorsNameThePath) {
  try {
    read_file(folder / "missing");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
    EXPECT_EQ(error.code(), ExitCode::io);
  }
  write_file_atomically(folder / "big", "12345");
  EXPECT_THROW(read_file(folder / "big", 4), IoError);
  EXPECT_THROW(read_file(folder), IoError);
  EXPECT_THROW(MappedFile(folder / "missing"), IoError);
  EXPECT_THROW(write_file_atomically(folder / "no" / "such", "x"), IoError);
}

TEST_F(Files, MappingShowsTheBytes) {
  write_file_atomically(folder / "m", "hello");
  MappedFile mapped(folder / "m");
  MappedFile moved(std::move(mapped));
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 'o');
  write_file_atomically(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

}  // namespace
}  // namespace dgap::base
