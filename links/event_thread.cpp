#include "links/event_thread.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <future>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dynamix::links {

event_thread::event_thread() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_)
    throw std::system_error(errno, std::generic_category(), "cannot wait for connections");
  wake_watched_.want(epoll_.get(), wake_.get(), EPOLLIN, tag(0, source::wake));
}

void event_thread::start() {
  thread_ = std::thread([this] { run(); });
}

void event_thread::end() {
  const std::scoped_lock lock(ending_);
  if (!thread_.joinable())
    return;
  post([this] { depart(); });
  thread_.join();
}

bool event_thread::post(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_)
      return false;
    posted_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  return true;
}

bool event_thread::ask(const std::function<void()>& work) {
  std::promise<void> done;
  const bool posted = post([&] {
    work();
    done.set_value();
  });
  if (posted)
    done.get_future().wait();
  return posted;
}

void event_thread::run() {
  constexpr int events_max = 64;
  sigset_t signals; // a write to a connection that is gone is an error, and no more
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::array<epoll_event, events_max> events{};
  while (!departed()) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms());
    for (int i = 0; i < count; ++i) {
      const auto number = events.at(static_cast<std::size_t>(i)).data.u64;
      const auto from = static_cast<source>(number % sources);
      if (from != source::wake) {
        handle(from, number / sources);
        continue;
      }
      std::uint64_t ignored = 0;
      [[maybe_unused]] const auto size = ::read(wake_.get(), &ignored, sizeof ignored);
      do_posted();
    }
    after_events();
  }
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  do_posted(); // whoever has asked before is answered
  depart();
  clear();
}

void event_thread::do_posted() {
  std::vector<std::function<void()>> work;
  {
    const std::scoped_lock lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& each : work)
    each();
}

} // namespace dynamix::links
