#include "helpers.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;

class StageTest : public ::testing::Test {
 protected:
  StageTest() {
    config_.run.dir = folder_.path().string();
    config_.run.name = "r";
    config_.model.path = "m.gguf";
    config_.corpus.path = "books";
    config_.precisions = {preset("K4V4")};
    std::filesystem::create_directories(in("traces"));
    base::write_file_atomically(in("traces/index.json"), "{}");
    base::write_file_atomically(in("windows.json"), "w");
  }
  std::filesystem::path in(const std::string& name) const { return config_.run_directory() / name; }
  Stage calibrate() const { return {config_, "calibrate", {in("traces/index.json")}}; }

  TemporaryFolder folder_;
  Config config_;
};

TEST_F(StageTest, IsDoneAfterItFinished) {
  EXPECT_FALSE(calibrate().done());
  calibrate().finish({in("windows.json")});
  EXPECT_TRUE(calibrate().done());
  EXPECT_EQ(calibrate().key().size(), 64u);
  EXPECT_THAT(base::read_file(in("stages/calibrate.json")),
              HasSubstr("\"path\": \"windows.json\""));
}

TEST_F(StageTest, IsRepeatedWhenAnythingChanged) {
  calibrate().finish({in("windows.json")});

  base::write_file_atomically(in("windows.json"), "W");  // same size
  EXPECT_FALSE(calibrate().done());
  base::write_file_atomically(in("windows.json"), "w");
  EXPECT_TRUE(calibrate().done());
  std::filesystem::remove(in("windows.json"));
  EXPECT_FALSE(calibrate().done());
  base::write_file_atomically(in("windows.json"), "w");

  base::write_file_atomically(in("traces/index.json"), "{ }");
  EXPECT_FALSE(calibrate().done());
  base::write_file_atomically(in("traces/index.json"), "{}");
  EXPECT_TRUE(calibrate().done());

  config_.window.alpha = 0.5;
  EXPECT_FALSE(calibrate().done());
  config_.window.alpha = 0.9;
  config_.training.epochs = 77;  // of a later stage
  config_.run.threads = 3;
  EXPECT_TRUE(calibrate().done());
}

TEST_F(StageTest, AMovedRunDirectoryIsStillDone) {
  calibrate().finish({in("windows.json")});
  std::filesystem::rename(folder_ / "r", folder_ / "moved");
  config_.run.name = "moved";
  EXPECT_TRUE(calibrate().done());
}

TEST_F(StageTest, RecordsOfOtherStagesDoNotCount) {
  calibrate().finish({in("windows.json")});
  std::filesystem::copy_file(in("stages/calibrate.json"), in("stages/train.json"));
  EXPECT_FALSE(Stage(config_, "train", {in("traces/index.json")}).done());
}

TEST_F(StageTest, DamagedRecordsCountAsNone) {
  calibrate().finish({in("windows.json")});
  const std::string good = base::read_file(in("stages/calibrate.json"));
  std::vector<std::string> bad = {"", "{}", "[]", good.substr(0, good.size() / 2)};
  bad.push_back(std::string(good).replace(good.find("\"version\": 1"), 12, "\"version\": 9"));
  bad.push_back(std::string(good).replace(good.find("\"bytes\": 1"), 10, "\"bytes\": -"));
  for (const std::string& text : bad) {
    base::write_file_atomically(in("stages/calibrate.json"), text);
    EXPECT_FALSE(calibrate().done()) << text;
  }
}

TEST_F(StageTest, MissingInputsNameTheVerbThatMakesThem) {
  const auto message = [&](const std::string& input) {
    return refusal<base::FailedError>([&] { Stage(config_, "evaluate", {in(input)}); });
  };
  EXPECT_THAT(message("traces/part-00000.h5"), HasSubstr("run `dgap collect` first"));
  EXPECT_THAT(message("threshold.json"), HasSubstr("run `dgap threshold` first"));
  EXPECT_THAT(message("detector/K4V4.json"), HasSubstr("run `dgap train` first"));
  EXPECT_THAT(message("corrector/K4V4.json"), HasSubstr("run `dgap train` first"));
  EXPECT_THAT(message("bundle/manifest.json"), HasSubstr("run `dgap export` first"));
  EXPECT_THAT(message("evaluation.json"), HasSubstr("run `dgap evaluate` first"));
  std::filesystem::remove(in("windows.json"));
  EXPECT_EQ(message("windows.json"),
            in("windows.json").string() +
                ": is missing, and evaluate reads it; run `dgap calibrate` first");
}

TEST_F(StageTest, RecordsCanBeVerified) {
  EXPECT_NO_THROW(verify_stage_records(config_.run_directory()));
  calibrate().finish({in("windows.json")});
  EXPECT_NO_THROW(verify_stage_records(config_.run_directory()));
  base::write_file_atomically(in("windows.json"), "W");
  EXPECT_EQ(refusal([&] { verify_stage_records(config_.run_directory()); }),
            in("windows.json").string() +
                ": is missing or not as the stage left it; run `dgap calibrate` again");
  base::write_file_atomically(in("stages/calibrate.json"), "{}");
  EXPECT_THROW(verify_stage_records(config_.run_directory()), base::IoError);
}

TEST_F(StageTest, MissingOutputsAreErrors) {
  EXPECT_THROW(calibrate().finish({in("none.json")}), base::IoError);
}

TEST(Stages, HaveOneOrder) {
  EXPECT_THAT(stage_names(), ::testing::ElementsAre("allocate", "collect", "calibrate", "train",
                                                    "threshold", "export", "evaluate", "report"));
  Config config;
  for (const std::string_view name : stage_names()) EXPECT_NO_THROW(to_stage_yaml(config, name));
}

}  // namespace
}  // namespace dgap::schemas
