#include <fstream>
#include <new>

#include "base/stop.hpp"
#include "helpers.hpp"
#include "schemas/results/results.hpp"

namespace dgap::app {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    for (const std::string_view verb : schemas::stage_names()) {
      actions_.stages.push_back(
          {verb, [this, verb](const schemas::Config& config, base::Progress& progress) {
             progress.begin(verb, 2, "units");
             progress.advance(2);
             progress.end();
             calls_.emplace_back(verb);
             if (failure_) failure_();
             if (verb == "evaluate") write_figures(config);
           }});
    }
    actions_.estimate = [](const schemas::Config&) { return json{{"seconds", 5}}; };
    actions_.inspect = [](const std::filesystem::path& p) { return json{{"path", p.string()}}; };
    actions_.verify = [](const std::filesystem::path&) -> Actions::Answer {
      throw base::IoError("x: damaged");
    };
    actions_.doctor = actions_.inspect;
    config_ = (folder_ / "c.yaml").string();
    base::write_file_atomically(
        config_, "run: {dir: " + folder_.path().string() +
                     ", name: r}\nmodel: {path: m}\ncorpus: {path: b}\nprecisions: [K4V4]\n");
  }

  static void write_figures(const schemas::Config& config) {
    schemas::WindowResult window;
    window.window = 7;
    schemas::write_windows(config.run_directory() / "windows.json", {{"K4V4", window}});
    base::write_file_atomically(
        config.run_directory() / "evaluation.json",
        R"({"version": 1, "precisions": {"K4V4": {"quantized": {"kl": 0.25}}}})");
  }
  Outcome go(const std::vector<std::string>& words) { return run(words, actions_); }
  int code_for(std::function<void()> failure) {
    failure_ = std::move(failure);
    return go({"collect", config_}).code;
  }

  TemporaryFolder folder_;
  std::string config_;
  Actions actions_;
  std::vector<std::string> calls_;
  std::function<void()> failure_;
};

TEST_F(CommandTest, RunCallsAllStagesInOrder) {
  const Outcome outcome = go({"run", config_});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(calls_, ElementsAre("collect", "calibrate", "train", "threshold", "export",
                                  "evaluate", "report"));
  EXPECT_THAT(outcome.out, HasSubstr("K4V4"));
  EXPECT_THAT(outcome.out, HasSubstr("0.25 > -"));
  EXPECT_THAT(outcome.err, HasSubstr("collect: 2 units in 0:00"));
}

TEST_F(CommandTest, AStageVerbCallsItsStage) {
  const Outcome outcome = go({"train", config_, "--json", "--set", "run.name=other"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(calls_, ElementsAre("train"));
  const json answer = json::parse(outcome.out);  // one object, nothing else
  EXPECT_EQ(answer["run_directory"], (folder_ / "other").string());
  EXPECT_EQ(answer["stages"]["train"]["path"], (folder_ / "other/detector").string());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "other/config.resolved.yaml"));
}

TEST_F(CommandTest, ErrorsBecomeExitCodes) {
  EXPECT_EQ(code_for([] {}), 0);
  EXPECT_EQ(code_for([] { throw base::FailedError("f"); }), 1);
  EXPECT_EQ(code_for([] { throw base::UsageError("u"); }), 2);
  EXPECT_EQ(code_for([] { throw base::UnavailableError("a"); }), 69);
  EXPECT_EQ(code_for([] { throw base::IoError("i"); }), 74);
  EXPECT_EQ(code_for([] { throw base::InterruptedError("s"); }), 75);
  EXPECT_EQ(code_for([] { throw std::logic_error("l"); }), 1);
  EXPECT_EQ(code_for([] { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(code_for([] { std::filesystem::rename("/nonexistent", "/nonexistent2"); }), 74);
}

TEST_F(CommandTest, ErrorsAreOneObjectWithJson) {
  const Outcome outcome = go({"verify", "x", "--json"});
  EXPECT_EQ(outcome.code, 74);
  EXPECT_EQ(json::parse(outcome.out), (json{{"error", {{"code", 74}, {"message", "x: damaged"}}}}));
  EXPECT_THAT(outcome.err, HasSubstr("dgap: error: x: damaged"));
  EXPECT_EQ(json::parse(go({"run", "--json"}).out)["error"]["code"], 2);
  EXPECT_EQ(json::parse(go({"sweep", "plan", "--json"}).out)["error"]["code"], 1);
}

TEST_F(CommandTest, UsageIsCheckedBeforeAnythingIsMade) {
  EXPECT_EQ(go({}).code, 2);
  EXPECT_EQ(go({"run", config_, "--set", "window.cap=0"}).code, 2);
  EXPECT_EQ(go({"run", (folder_ / "none.yaml").string()}).code, 2);
  EXPECT_EQ(go({"run", config_, "--bogus"}).code, 2);
  EXPECT_TRUE(calls_.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r"));
}

TEST_F(CommandTest, HelpAndVersion) {
  EXPECT_EQ(go({"--help"}).code, 0);
  EXPECT_THAT(go({"--version"}).out, ::testing::StartsWith("dgap "));
  EXPECT_TRUE(json::parse(go({"--version", "--json"}).out).contains("commit"));
  const Outcome to_come = go({"sweep", config_});
  EXPECT_EQ(to_come.code, 1);
  EXPECT_THAT(to_come.err, HasSubstr("sweep is not built in this version"));
  EXPECT_EQ(to_come.out, "");
}

TEST_F(CommandTest, DryRunMakesNothing) {
  EXPECT_EQ(go({"run", config_, "--dry-run"}).out, "seconds: 5\n");
  EXPECT_TRUE(calls_.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r"));
}

TEST_F(CommandTest, TheLogHasOneObjectPerLine) {
  go({"collect", config_});
  code_for([] { throw base::IoError("a \"quoted\"\nmessage"); });
  std::ifstream in(folder_ / "r/log.jsonl");
  std::vector<std::string> events;
  for (std::string line; std::getline(in, line);) events.push_back(json::parse(line).at("event"));
  EXPECT_THAT(events,
              ElementsAre("start", "begin", "end", "done", "start", "begin", "end", "error"));
}

TEST_F(CommandTest, AStopEndsBetweenStagesWith75) {
  failure_ = [] { base::request_stop(); };
  const Arguments arguments({"run", config_});
  EXPECT_EXIT(
      {
        std::ostringstream out;
        const int code = run_command(arguments.argc(), arguments.argv(), actions_, out);
        std::_Exit(calls_.size() == 1 ? code : 0);
      },
      ::testing::ExitedWithCode(75), "stopped by a signal; the same command resumes");
}

TEST_F(CommandTest, OutputThatCannotBeWrittenIsAnError) {
  const Arguments arguments({"--version"});
  std::ofstream full("/dev/full");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_command(arguments.argc(), arguments.argv(), actions_, full), 74);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("standard output cannot be written"));
}

}  // namespace
}  // namespace dgap::app
