#pragma once

#include "memory_store.hpp"
#include "trainer/exchange.hpp"

#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace dynamix::trainer {

/// The ranks 0 to n - 1.
inline std::vector<std::uint32_t> all_ranks(std::uint32_t world_size) {
  std::vector<std::uint32_t> ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// Runs `body(rank, exchange)` on as many threads as there are ranks, joined by the real exchange over loopback. The
/// first exception of any of them is thrown again.
template <typename Body>
void run_ranks(std::uint32_t world_size, Body body) {
  memory_store meeting;
  steady_clock time;
  std::vector<std::exception_ptr> errors(world_size);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const interruption never;
          const membership place{.rank = rank, .members = all_ranks(world_size), .store_prefix = "test"};
          auto peers = join_exchange(place, meeting, time, never);
          body(rank, *peers);
          peers->leave();
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors)
    if (error)
      std::rethrow_exception(error);
}

} // namespace dynamix::trainer
