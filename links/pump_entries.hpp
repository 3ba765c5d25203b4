#pragma once

/// What a pump keeps of its connections. Included by pump.cpp only.

#include "links/event_thread.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

namespace dynamix::links {

struct call_result {
  int plain = -1;
  std::string problem;
};

struct entry {
  std::unique_ptr<connection> link;
  watched peer;
  watched local;
  std::promise<call_result> opened; ///< of one that we call
  descriptor adopted;               ///< our plain end, whose other end the caller has already
  bool introduces = false;          ///< a carriage: who calls says first what for
  bool counted = false;             ///< among its host's
  bool is_open = false;             ///< or was, until it broke
};

/// The end of a carriage that came first, or neither.
struct half_carriage {
  descriptor plain;
  std::uint64_t link = 0;                      ///< 0: none
  std::chrono::steady_clock::time_point until; ///< of `plain`
};

} // namespace dynamix::links
