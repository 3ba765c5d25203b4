#include "node/stop_signals.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
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
  EXPECT_EQ(signals.terminated().stop_requested(), signal == SIGTERM);
}

TEST(stop_signals, ask_to_stop_where_a_thread_was_there_before) {
  std::promise<void> done;
  std::jthread earlier([&] { done.get_future().wait(); }); // as a library's thread pool
  stop_by(SIGINT);
  stop_by(SIGTERM);
  done.set_value();
}

} // namespace
} // namespace dynamix::node
