#include <csignal>

#include "app/signals.hpp"
#include "base/stop.hpp"
#include "helpers.hpp"

namespace dgap::app {
namespace {

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, TheFirstAsksForAStop) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        if (base::stop_requested()) std::_Exit(1);
        std::raise(GetParam());
        std::_Exit(base::stop_requested() ? 75 : 1);
      },
      ::testing::ExitedWithCode(75), "stopping as soon as the run can be resumed");
}

TEST_P(Signals, TheSecondKills) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        std::raise(SIGUSR1);
        std::raise(GetParam());
        std::raise(GetParam());
        std::_Exit(0);
      },
      ::testing::KilledBySignal(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(All, Signals, ::testing::Values(SIGTERM, SIGINT, SIGUSR1, SIGUSR2));

TEST(SignalsOfPipes, AreIgnored) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        std::raise(SIGPIPE);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dgap::app
