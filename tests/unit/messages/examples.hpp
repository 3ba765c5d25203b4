#pragma once

#include "messages/codec.hpp"

#include <cstdlib>
#include <utility>
#include <variant>
#include <vector>

namespace dynamix::messages {

/// One of each message, no field at its default: what the golden files hold, and where mutations start from.
std::vector<any_message> examples();

/// The example of one kind.
template <class T>
T example() {
  for (auto& one : examples())
    if (auto* found = std::get_if<T>(&one))
      return std::move(*found);
  std::abort();
}

} // namespace dynamix::messages
