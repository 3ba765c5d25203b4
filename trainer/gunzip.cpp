#include "trainer/gunzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <fmt/core.h>
#include <limits>

namespace dynamix::trainer {
namespace {

constexpr std::size_t chunk_bytes = 1U << 20;

bool begins_member(const z_stream& stream) {
  return std::string_view(reinterpret_cast<const char*>(stream.next_in), stream.avail_in).starts_with(gzip_mark);
}

std::string inflate_all(z_stream& stream, std::size_t limit_bytes, std::string& contents) {
  const auto packed_bytes = stream.avail_in;
  for (;;) {
    const std::size_t filled = contents.size();
    if (filled == limit_bytes)
      return fmt::format("it unpacks to more than the {} bytes expected at most", limit_bytes);
    contents.resize(std::min(limit_bytes, filled + chunk_bytes));
    stream.next_out = reinterpret_cast<Bytef*>(contents.data() + filled);
    stream.avail_out = static_cast<uInt>(contents.size() - filled);
    const int status = inflate(&stream, Z_NO_FLUSH);
    contents.resize(contents.size() - stream.avail_out);
    const auto offset = fmt::format(" at offset {}", packed_bytes - stream.avail_in); // of all members
    if (status == Z_STREAM_END) {
      if (begins_member(stream) && inflateReset(&stream) == Z_OK)
        continue;
      return std::all_of(stream.next_in, stream.next_in + stream.avail_in, [](Bytef byte) { return byte == 0; })
                 ? std::string{}
                 : fmt::format("gzip data ends{}, but {} bytes follow, expected none", offset, stream.avail_in);
    }
    if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0))
      return "gzip data is cut short" + offset + ", expected more";
    if (status != Z_OK)
      return "damaged gzip data" + offset + ": " + (stream.msg != nullptr ? stream.msg : zError(status));
  }
}

} // namespace

std::string gunzip(const std::string& packed, std::size_t limit_bytes, std::string& contents) {
  contents.clear();
  if (packed.size() > std::numeric_limits<uInt>::max())
    return "it is too large";
  z_stream stream{};
  constexpr int gzip_only = 15 + 16;
  if (inflateInit2(&stream, gzip_only) != Z_OK)
    return "zlib cannot start";
  // zlib reads through a pointer that is not const, but does not write.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  auto problem = inflate_all(stream, limit_bytes, contents);
  inflateEnd(&stream);
  return problem;
}

} // namespace dynamix::trainer
