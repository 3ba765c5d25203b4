#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dynamix::trainer {

/// What a member begins with.
inline constexpr std::string_view gzip_mark = "\x1f\x8b";

/// Unpacks whole gzip members, one behind the other, and zeros behind the last, as gzip does; nothing else may follow.
/// Returns an empty string, or what is wrong and at which offset.
/// Refuses to unpack more than `limit_bytes`.
std::string gunzip(const std::string& packed, std::size_t limit_bytes, std::string& contents);

} // namespace dynamix::trainer
