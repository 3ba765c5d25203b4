#include "node/event_file.hpp"

#include <array>
#include <bit>
#include <cmath>

namespace dynamix::node {
namespace {

enum wire : std::uint8_t { wire_varint = 0, wire_64 = 1, wire_bytes = 2, wire_32 = 5 };

template <class Number>
void put_little_endian(std::string& to, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    to += static_cast<char>(number >> (8 * i) & 0xffU);
}

void put_varint(std::string& to, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7)
    to += static_cast<char>(number | 0x80U);
  to += static_cast<char>(number);
}

void put_tag(std::string& to, std::uint32_t field, wire type) {
  put_varint(to, field << 3 | type);
}

void put_double(std::string& to, std::uint32_t field, double value) {
  put_tag(to, field, wire_64);
  put_little_endian(to, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& to, std::uint32_t field, std::string_view bytes) {
  put_tag(to, field, wire_bytes);
  put_varint(to, bytes.size());
  to += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const auto crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

} // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit)
        crc = (crc & 1U) != 0 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
      made[i] = crc;
    }
    return made;
  }();
  std::uint32_t crc = ~0U;
  for (const char each : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(each)) & 0xffU] ^ crc >> 8;
  return ~crc;
}

std::string to_record(std::string_view data) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(data.size()));
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

std::string version_event(double wall_seconds) {
  std::string event;
  put_double(event, 1, wall_seconds);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalar_event(double wall_seconds, std::uint64_t step, std::span<const scalar> scalars) {
  std::string summary;
  for (const auto& each : scalars) {
    if (!std::isfinite(each.value))
      continue;
    std::string value;
    put_bytes(value, 1, each.tag);
    put_tag(value, 2, wire_32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(each.value)));
    put_bytes(summary, 1, value);
  }
  if (summary.empty())
    return {};
  std::string event;
  put_double(event, 1, wall_seconds);
  put_tag(event, 2, wire_varint);
  put_varint(event, step);
  put_bytes(event, 5, summary);
  return event;
}

} // namespace dynamix::node
