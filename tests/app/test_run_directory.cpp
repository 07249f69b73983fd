#include <fcntl.h>
#include <sys/file.h>

#include "app/file_kind.hpp"
#include "app/run_directory.hpp"
#include "helpers.hpp"

namespace dgap::app {
namespace {

schemas::Config config_in(const std::filesystem::path& folder) {
  schemas::Config config;
  config.run.dir = folder.string();
  config.model.path = "m";
  config.corpus.path = "b";
  config.precisions = {schemas::preset("K4V4")};
  return config;
}

TEST(RunDirectory, HoldsTheResolvedConfiguration) {
  const TemporaryFolder folder;
  const schemas::Config config = config_in(folder / "deep/er");
  { const RunDirectory directory(config); }
  EXPECT_EQ(schemas::read_config(config.run_directory() / "config.resolved.yaml"), config);
}

TEST(RunDirectory, HasOneProcessAtATime) {
  const TemporaryFolder folder;
  const schemas::Config config = config_in(folder.path());
  {
    const RunDirectory first(config);
    EXPECT_THROW(RunDirectory second(config), base::FailedError);
  }
  EXPECT_NO_THROW(RunDirectory third(config));
}

TEST(RunDirectory, ThatCannotBeMadeIsAnIoError) {
  const TemporaryFolder folder;
  base::write_file_atomically(folder / "file", "");
  EXPECT_THROW(RunDirectory directory(config_in(folder / "file")), base::IoError);
}

TEST(FileKind, IsToldByFirstBytesAndNames) {
  const TemporaryFolder folder;
  const auto kind_of = [&](const std::string& name, std::string_view bytes) {
    std::filesystem::create_directories((folder / name).parent_path());
    base::write_file_atomically(folder / name, bytes);
    return file_kind(folder / name);
  };
  EXPECT_EQ(kind_of("a", "GGUF...."), FileKind::model);
  EXPECT_EQ(kind_of("b", "\x89HDF\r\n\x1a\nxx"), FileKind::trace_part);
  EXPECT_EQ(kind_of("c.yaml", ""), FileKind::config);
  EXPECT_EQ(kind_of("windows.json", "{}"), FileKind::windows);
  EXPECT_EQ(kind_of("threshold.json", "{}"), FileKind::threshold);
  EXPECT_EQ(kind_of("evaluation.json", "{}"), FileKind::evaluation);
  EXPECT_THROW(kind_of("d.txt", "text"), base::UsageError);
  EXPECT_THROW(kind_of("empty", ""), base::UsageError);
  EXPECT_THROW(file_kind(folder / "none"), base::IoError);
  EXPECT_THROW(file_kind(folder.path()), base::UsageError);
  EXPECT_THROW(file_kind("/dev/null"), base::UsageError);
  std::filesystem::create_directories(folder / "m");
  base::write_file_atomically(folder / "m/config.json", "{}");
  EXPECT_EQ(file_kind(folder / "m"), FileKind::model);
  std::filesystem::create_directories(folder / "t");
  base::write_file_atomically(folder / "t/index.json", "{}");
  EXPECT_EQ(file_kind(folder / "t"), FileKind::trace_folder);
  kind_of("t/config.resolved.yaml", "");
  EXPECT_EQ(file_kind(folder / "t"), FileKind::run_directory);
  base::write_file_atomically(folder / "t/manifest.json", "{}");
  EXPECT_EQ(file_kind(folder / "t"), FileKind::bundle);
}

}  // namespace
}  // namespace dgap::app
