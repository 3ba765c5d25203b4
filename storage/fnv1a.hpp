#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dynamix::storage {

/// FNV-1a, 64 bits (Fowler, Noll and Vo): tells contents apart, and is not a defence against anyone who wants them
/// equal.
class fnv1a {
public:
  /// Any range of bytes.
  template <class Bytes>
  fnv1a& add(const Bytes& bytes) {
    for (const auto byte : bytes)
      value_ = (value_ ^ static_cast<std::uint8_t>(byte)) * prime;
    return *this;
  }
  /// Its eight bytes, the lowest first. A zero only multiplies, so those above the highest that is not are done at
  /// once: a digest of every step has thousands of small numbers.
  fnv1a& add_number(std::uint64_t number) {
    std::size_t zeros = powers.size() - 1;
    for (; number != 0; number >>= 8U, --zeros)
      value_ = (value_ ^ (number & 0xffU)) * prime;
    value_ *= powers[zeros];
    return *this;
  }
  std::uint64_t value() const { return value_; }

private:
  static constexpr std::uint64_t prime = 0x100000001b3U;
  static constexpr std::array<std::uint64_t, 9> powers = [] {
    std::array<std::uint64_t, 9> made{1};
    for (std::size_t i = 1; i < made.size(); ++i)
      made[i] = made[i - 1] * prime;
    return made;
  }();

  std::uint64_t value_ = 0xcbf29ce484222325U;
};

} // namespace dynamix::storage
