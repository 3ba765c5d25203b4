#pragma once

#include "memory_store.hpp"
#include "trainer/exchange.hpp"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace dynamix::trainer {

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
          const membership place{.rank = rank, .world_size = world_size, .store_prefix = "test"};
          auto peers = join_exchange(place, meeting, time);
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
