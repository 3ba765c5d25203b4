#include "node/commands/command_line.hpp"
#include "node/launch/stop_signals.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <stop_token>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

/// Sends the signal to this process and waits for the stop request.
void stop_by(int signal) {
  const stop_signals signals;
  std::promise<void> asked;
  const std::stop_callback callback(signals.token(), [&] { asked.set_value(); });
  kill(getpid(), signal);
  asked.get_future().wait();
  EXPECT_TRUE(signals.token().stop_requested());
  EXPECT_EQ(signals.terminated().stop_requested(), signal != SIGINT);
}

TEST(StopSignals, AskToStopWhereAThreadWasThereBefore) {
  std::promise<void> done;
  std::jthread earlier([&] { done.get_future().wait(); }); // as a library's thread pool
  stop_by(SIGINT);
  stop_by(SIGTERM);
  stop_by(SIGHUP);
  done.set_value();
}

TEST(StopSignals, EndTheProcessAtOnceOnSigquit) {
  EXPECT_EXIT(
      {
        const stop_signals signals(second_signal::hurries);
        kill(getpid(), SIGQUIT);
        pause();
      },
      ::testing::ExitedWithCode(1), "");
}

/// What nohup asks for.
TEST(StopSignals, LeaveAnIgnoredHangUpIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const stop_signals signals;
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_FALSE(signals.token().stop_requested());
  }
  std::signal(SIGHUP, SIG_DFL);
}

/// As `timeout` sends it to its child and to the child's group, and the kernel for each thread of a parent.
TEST(StopSignals, TakeSeveralAtOnceForOne) {
  const stop_signals signals(second_signal::hurries);
  for (int i = 0; i < 5; ++i) {
    kill(getpid(), i % 2 == 0 ? SIGTERM : SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  while (!signals.token().stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(signals.hurried().stop_requested());
  EXPECT_TRUE(signals.terminated().stop_requested());
}

/// A provider gives a notice and sends a signal, in either order, or a second apart.
TEST(StopSignalsDeathTest, TakeANoticeAndASigtermForOneRequest) {
  for (const bool notice_first : {true, false})
    EXPECT_EXIT(
        {
          stop_signals signals;
          if (notice_first)
            signals.request_leave();
          kill(getpid(), SIGTERM);
          while (!signals.token().stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          std::this_thread::sleep_for(std::chrono::milliseconds(600)); // what comes later is another
          signals.request_leave();
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          _exit(signals.terminated().stop_requested() ? 7 : 8);
        },
        ::testing::ExitedWithCode(7), "");
}

/// Sends SIGINT again and again, each when the one before has had its effect, which it tells; one ends it.
[[noreturn]] void interrupt(second_signal second) {
  const stop_signals signals(second);
  for (const auto& effect : {signals.token(), signals.hurried(), std::stop_token()}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600)); // what comes earlier is the one before
    kill(getpid(), SIGINT);
    while (!effect.stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::cerr << (signals.hurried().stop_requested() ? "hurried." : "stopped.");
  }
  std::abort();
}

TEST(StopSignalsDeathTest, EndTheProcessAtTheSecond) {
  EXPECT_EXIT(interrupt(second_signal::ends), ::testing::ExitedWithCode(exit_failed), "^stopped.$");
}

TEST(StopSignalsDeathTest, HurryAtTheSecondAndEndTheProcessAtTheThird) {
  EXPECT_EXIT(interrupt(second_signal::hurries), ::testing::ExitedWithCode(exit_failed), "^stopped.hurried.$");
}

} // namespace
} // namespace dynamix::node
