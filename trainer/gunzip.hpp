#pragma once

#include <cstddef>
#include <string>

namespace dynamix::trainer {

/// Unpacks one whole gzip member; nothing may follow it. Returns an empty string, or what is wrong and at which offset.
/// Refuses to unpack more than `limit_bytes`.
std::string gunzip(const std::string& packed, std::size_t limit_bytes, std::string& contents);

} // namespace dynamix::trainer
