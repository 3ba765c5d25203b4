#include "links/sockets.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace dynamix::links {
namespace {

/// At a port whose queue is full, until `accept_all`.
class BusyPort : public testing::Test {
protected:
  BusyPort() {
    std::string problem;
    listener_ = listen_tcp("127.0.0.1", 0, port_, problem);
    ::listen(listener_.get(), 0);
    for (int i = 0; i < 3; ++i)
      waiting_.push_back(connect_tcp("127.0.0.1", port_, std::chrono::milliseconds(1), problem));
  }
  void accept_all() {
    for (;;) {
      descriptor made(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!made)
        return;
      waiting_.push_back(std::move(made));
    }
  }

  descriptor listener_;
  std::uint16_t port_ = 0;
  std::vector<descriptor> waiting_;
};

TEST_F(BusyPort, IsWaitedForWhateverSignalsCome) {
  struct sigaction before {};
  struct sigaction ignoring {};
  ignoring.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &ignoring, &before);
  std::atomic<bool> over = false;
  std::string problem;
  descriptor made;
  std::thread connects([&] {
    made = connect_tcp("127.0.0.1", port_, std::chrono::milliseconds(30000), problem);
    over = true;
  });
  for (int i = 0; !over; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (i < 10)
      ::pthread_kill(connects.native_handle(), SIGUSR1);
    else
      accept_all();
  }
  connects.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(made) << problem;
}

} // namespace
} // namespace dynamix::links
