#pragma once

/// One thread that waits for descriptors, and does what other threads give it. Included by this room's sources only.

#include "links/connection.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <sys/epoll.h>
#include <thread>
#include <vector>

namespace dynamix::links {

// What an event is about: the lowest bits of its number.
enum class source : std::uint64_t { peer, local, listener, queue, wake };
constexpr std::uint64_t sources = 8;

inline std::uint64_t tag(std::uint64_t id, source from) {
  return id * sources + static_cast<std::uint64_t>(from);
}

/// A descriptor's place in an epoll set: it is in it only while something is waited for, since epoll reports the end of
/// the other side unasked.
class watched {
public:
  void want(int epoll, int number, std::uint32_t events, std::uint64_t with) {
    if (events == events_)
      return;
    epoll_event wanted{.events = events, .data = {.u64 = with}};
    const int change = events == 0 ? EPOLL_CTL_DEL : events_ == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    ::epoll_ctl(epoll, change, number, &wanted);
    events_ = events;
  }

private:
  std::uint32_t events_ = 0;
};

constexpr const char* host_ends = "this host ends";
constexpr std::chrono::milliseconds look_interval{50}; ///< at deadlines, while there are any

/// An heir calls `start` when it is made, and `end` before it goes.
class event_thread {
public:
  event_thread(); ///< throws std::system_error where there is no descriptor left
  event_thread(const event_thread&) = delete;
  virtual ~event_thread() = default;

  /// False where the thread has ended, or is about to.
  bool post(std::function<void()> work);
  /// As `post`, and waits until it is done.
  bool ask(const std::function<void()>& work);
  /// Not to be called on the thread.
  void end();

protected:
  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }
  int epoll() const { return epoll_.get(); }
  void start();

  // On the thread.
  virtual void handle(source from, std::uint64_t id) = 0;
  virtual void after_events() = 0;
  virtual int wait_ms() const = 0;   ///< for events; -1: until there is one
  virtual void depart() = 0;         ///< nobody new is taken; may come twice
  virtual bool departed() const = 0; ///< and what was to be done first is done
  virtual void clear() {}            ///< the end

private:
  void run();
  void do_posted();

  descriptor epoll_;
  descriptor wake_;
  watched wake_watched_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_; ///< guarded by the mutex
  bool ended_ = false;                        ///< guarded by the mutex
  std::mutex ending_;
  std::thread thread_;
};

} // namespace dynamix::links
