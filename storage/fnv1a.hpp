#pragma once

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
      value_ = (value_ ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3U;
    return *this;
  }
  std::uint64_t value() const { return value_; }

private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

} // namespace dynamix::storage
