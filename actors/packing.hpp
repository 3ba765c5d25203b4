#pragma once

/// Between messages and values, for actors.

#include "messages/serialization.hpp"
#include "messages/validation.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace dynamix::actors {

template <class T>
messages::message<T> pack(T value) {
  return {std::move(value)};
}

/// For numbers that a computation may have spoiled, such as a loss: throws std::logic_error for a value that every
/// receiver would refuse, so that nobody in this process takes it either.
template <class T>
messages::message<T> pack_checked(T value) {
  if (const auto fault = messages::validate(value); !fault.empty())
    throw std::logic_error("not a message: " + fault);
  return {std::move(value)};
}

/// The value of a message; null, and a line in the log, for one that came without: a peer's input is not trusted.
template <class T>
const T* unpack(const messages::message<T>& received, const char* receiver) {
  if (received)
    return &*received;
  spdlog::warn("message_refused actor={} kind={} error={}", receiver, messages::kind_of<T>,
               storage::quoted(received.error().text));
  return nullptr;
}

} // namespace dynamix::actors
