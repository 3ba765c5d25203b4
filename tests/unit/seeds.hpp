#pragma once

/// Seeds of the tests that train. How a CPU rounds can turn a single training another way, so such a test asserts what
/// most seeds reach, or a margin that rounding does not use up; `tools/rounding-table` shows it over many seeds, which
/// it moves by DYNAMIX_TEST_SEED.

#include <cstdint>
#include <cstdlib>

namespace dynamix {

/// `seed`, moved by 1000 times the number in DYNAMIX_TEST_SEED (0 where it is not set), so that no two moves of seeds
/// below 1000 meet.
inline std::uint64_t test_seed(std::uint64_t seed) {
  const char* moves = std::getenv("DYNAMIX_TEST_SEED");
  return seed + 1000 * (moves == nullptr ? 0 : std::strtoull(moves, nullptr, 10));
}

/// For how many of the seeds 1 to `runs`, moved, `holds(seed)` is true.
template <class Outcome>
int count_seeds(std::uint64_t runs, Outcome holds) {
  int count = 0;
  for (std::uint64_t run = 1; run <= runs; ++run)
    count += holds(test_seed(run)) ? 1 : 0;
  return count;
}

} // namespace dynamix
