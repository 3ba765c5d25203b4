#pragma once

/// What a pump keeps of its connections and listeners. Included by pump.cpp only.

#include "links/connection.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <sys/epoll.h>

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

struct call_result {
  int plain = -1;
  std::string problem;
};

struct entry {
  std::unique_ptr<connection> link;
  watched peer;
  watched local;
  std::uint64_t listener = 0;       ///< whose queue gets it; 0: the caller gets it
  std::promise<call_result> opened; ///< of one that we call
  descriptor adopted;               ///< our plain end, whose other end the caller has already
  bool introduces = false;          ///< a carriage: who calls says first what for
  bool counted = false;             ///< among its host's
};

struct listener {
  descriptor socket;
  descriptor queue;
  watched accepting;
  watched hand_over;
  std::uint16_t port = 0;
  bool carriages = false; ///< it has no queue
};

/// The end of a carriage that came first, or neither.
struct half_carriage {
  descriptor plain;
  std::uint64_t link = 0;                      ///< 0: none
  std::chrono::steady_clock::time_point until; ///< of `plain`
};

} // namespace dynamix::links
