#pragma once

#include <cstddef>
#include <string>

namespace dynamix::trainer {

/// Unpacks whole gzip members, one behind the other, and zeros behind the last, as gzip does; nothing else may follow.
/// Returns an empty string, or what is wrong and at which offset.
/// Refuses to unpack more than `limit_bytes`.
std::string gunzip(const std::string& packed, std::size_t limit_bytes, std::string& contents);

} // namespace dynamix::trainer
