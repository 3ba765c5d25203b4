#pragma once

#include "exchange/server_group.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace dynamix::exchange {

/// The ranks 0 to n - 1.
inline std::vector<std::uint32_t> all_ranks(std::uint32_t size) {
  std::vector<std::uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// Joins ranks in a ring, as workers do.
inline std::unique_ptr<group> join_group(const place& own, store& meeting, const interruption& stop) {
  return join(own, meeting, stop);
}

/// Joins ranks whose sums go through servers with these shares.
inline auto by_shares(std::vector<double> shares) {
  return [shares = std::move(shares)](const place& own, store& meeting, const interruption& stop) {
    return sum_by_servers(join_ring(own, meeting, stop), shares, stop);
  };
}

/// Runs `body(rank, group)`, or with the pointer that owns the group, on as many threads as there are ranks, joined by
/// the real exchange over loopback: by `joining`. The first exception of any of them is thrown again.
template <typename Body, typename Joining = decltype(&join_group)>
void run_ranks(std::uint32_t size, Body body, Joining joining = &join_group) {
  memory_store meeting;
  std::vector<std::exception_ptr> errors(size);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const interruption never;
          std::unique_ptr<group> peers =
              joining({.rank = rank, .members = all_ranks(size), .store_prefix = "test"}, meeting, never);
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
