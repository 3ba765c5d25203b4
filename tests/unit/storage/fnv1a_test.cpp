#include "storage/fnv1a.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace dynamix::storage {
namespace {

TEST(Fnv1a, GivesThePublishedHashes) {
  EXPECT_EQ(fnv1a().add(std::string()).value(), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a().add(std::string("foobar")).value(), 0x85944171f73967e8U);
}

TEST(Fnv1a, TakesANumberAsItsEightBytes) {
  fnv1a of_numbers;
  fnv1a of_bytes;
  for (const std::uint64_t number : {0UL, 1UL, 255UL, 256UL, 0xff00UL, 0x1000000UL, 1UL << 63U, ~0UL}) {
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
    EXPECT_EQ(of_numbers.add_number(number).value(), of_bytes.add(bytes).value()) << number;
  }
}

} // namespace
} // namespace dynamix::storage
