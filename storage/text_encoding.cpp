#include "storage/text_encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace dynamix::storage {
namespace {

constexpr char32_t replacement = 0xfffd;

void append(std::string& text, char32_t point) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | ((point >> shift) & 0x3fU)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0U | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0U | (point >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0U | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string from_utf16(const std::string& bytes, bool big_endian) {
  const auto unit = [&](std::size_t at) {
    const auto first = static_cast<std::uint8_t>(bytes[at]);
    const auto second = static_cast<std::uint8_t>(bytes[at + 1]);
    return static_cast<char32_t>(big_endian ? first << 8 | second : second << 8 | first);
  };
  const auto within = [](char32_t value, char32_t first) { return value >= first && value < first + 0x400; };
  std::string text;
  for (std::size_t at = 2; at + 1 < bytes.size(); at += 2) {
    const auto high = unit(at);
    if (within(high, 0xd800) && at + 3 < bytes.size() && within(unit(at + 2), 0xdc00)) {
      append(text, 0x10000 + ((high - 0xd800) << 10) + (unit(at + 2) - 0xdc00));
      at += 2;
    } else {
      append(text, within(high, 0xd800) || within(high, 0xdc00) ? replacement : high);
    }
  }
  return text;
}

} // namespace

std::string to_utf8(std::string text) {
  if (text.starts_with("\xef\xbb\xbf"))
    return text.substr(3);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return from_utf16(text, text.front() == '\xfe');
  return text;
}

} // namespace dynamix::storage
