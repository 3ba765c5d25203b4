#include "trainer/idx_file.hpp"

#include "trainer/data_file.hpp"

#include <array>
#include <fmt/core.h>
#include <string_view>
#include <utility>

namespace dynamix::trainer {
namespace {

constexpr std::size_t limit_bytes = 1U << 30;

std::uint32_t big_endian(const std::string& contents, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8U | static_cast<std::uint8_t>(contents[offset + i]);
  return value;
}

/// What the magic number of another file says; empty: nothing.
std::string told_by(std::uint32_t magic, std::string_view contents) {
  constexpr std::array types = {std::pair{0x09, "signed bytes"}, std::pair{0x0b, "16-bit numbers"},
                                std::pair{0x0c, "32-bit numbers"}, std::pair{0x0d, "32-bit floats"},
                                std::pair{0x0e, "64-bit floats"}};
  for (const auto& [code, name] : types)
    if (magic >> 8U == static_cast<std::uint32_t>(code))
      return fmt::format(" (IDX, {}, {} dimensions)", name, magic & 0xffU);
  if ((magic & 0x00ffffffU) == 0x00080000U)
    return " (IDX, in the other byte order)";
  const auto kind = kind_of_file(contents);
  return kind.empty() ? "" : fmt::format(" ({})", kind);
}

std::string parse(const std::string& contents, std::uint8_t rank, idx_file& file) {
  constexpr std::uint32_t unsigned_bytes = 0x08U << 8U;
  const std::size_t header_bytes = 4 + 4 * std::size_t{rank};
  if (contents.size() < header_bytes)
    return fmt::format("ends at offset {}, expected an IDX header of {} bytes", contents.size(), header_bytes);
  if (const auto magic = big_endian(contents, 0); magic != (unsigned_bytes | rank))
    return fmt::format(
        "offset 0: found the magic number 0x{:08x}{}, expected 0x{:08x} (IDX, unsigned bytes, {} dimension{}", magic,
        told_by(magic, contents), unsigned_bytes | rank, rank, (rank == 1 ? ")" : "s)"));
  file.dimensions.clear();
  std::uint64_t values = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t offset = 4 + 4 * i;
    const auto length = big_endian(contents, offset);
    // A bound on each product keeps the next one from overflowing.
    if (length == 0 || values * length > limit_bytes)
      return fmt::format("offset {}: found a dimension of length {}, expected at least 1 and at most {} values in all",
                         offset, length, limit_bytes);
    file.dimensions.push_back(length);
    values *= length;
  }
  if (contents.size() != header_bytes + values)
    return fmt::format("found {} bytes, expected {} by the dimensions in its header", contents.size(),
                       header_bytes + values);
  file.values.assign(contents.begin() + static_cast<std::ptrdiff_t>(header_bytes), contents.end());
  return {};
}

} // namespace

std::string read_idx_file(const std::string& path, std::uint8_t rank, idx_file& file) {
  auto found = path;
  std::string contents;
  if (auto problem = read_data_file(found, limit_bytes, contents); !problem.empty())
    return problem;
  if (auto problem = parse(contents, rank, file); !problem.empty())
    return found + ": " + problem;
  return {};
}

} // namespace dynamix::trainer
