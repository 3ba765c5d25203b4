#pragma once

#include "exchange/group.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

namespace dynamix::exchange {

/// The ranks 0 to n - 1.
inline std::vector<std::uint32_t> all_ranks(std::uint32_t size) {
  std::vector<std::uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// Runs `body(rank, group)`, or with the pointer that owns the group, on as many threads as there are ranks, joined by
/// the real exchange over loopback. The first exception of any of them is thrown again.
template <typename Body>
void run_ranks(std::uint32_t size, Body body) {
  memory_store meeting;
  std::vector<std::exception_ptr> errors(size);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const interruption never;
          auto peers = join({.rank = rank, .members = all_ranks(size), .store_prefix = "test"}, meeting, never);
          if constexpr (std::is_invocable_v<Body, std::uint32_t, group&>)
            body(rank, *peers);
          else
            body(rank, peers);
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

} // namespace dynamix::exchange
