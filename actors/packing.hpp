#pragma once

/// Between frames and values, for actors.

#include "messages/codec.hpp"
#include "messages/frame.hpp"

#include <spdlog/spdlog.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace dynamix::actors {

/// A frame that holds `value`. Throws std::logic_error for a value that every receiver would refuse, such as a NaN.
template <class T>
messages::frame pack(const T& value) {
  auto encoded = messages::encode(value);
  if (!encoded)
    throw std::logic_error("not a message: " + encoded.error().text);
  return std::move(*encoded);
}

/// The value in a frame of the expected kind. Nothing, and a line in the log, for any other: a peer's input is not
/// trusted.
template <class T>
std::optional<T> unpack(const messages::frame& frame, const char* receiver) {
  auto decoded = messages::decode(frame);
  if (!decoded) {
    spdlog::warn("frame_refused actor={} error=\"{}\"", receiver, decoded.error().text);
    return std::nullopt;
  }
  if (auto* value = std::get_if<T>(&*decoded))
    return std::move(*value);
  spdlog::warn("frame_refused actor={} error=\"unexpected {}\"", receiver, messages::kind_name(*decoded));
  return std::nullopt;
}

} // namespace dynamix::actors
