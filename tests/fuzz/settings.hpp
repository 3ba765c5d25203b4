#pragma once

/// How much a mutation test does, and from which seed: DYNAMIX_FUZZ_ITERATIONS and DYNAMIX_FUZZ_SEED.

#include <cstdint>
#include <cstdlib>

namespace dynamix::fuzz {

#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t default_iterations = 1'000'000;
#else
constexpr std::uint64_t default_iterations = 100'000;
#endif

/// The environment's `variable` as a number.
inline std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

} // namespace dynamix::fuzz
