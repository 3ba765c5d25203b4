#pragma once

/// The meaning of every field, checked on both sides: the codec sends nothing and accepts nothing that fails here.

#include "messages/types.hpp"

#include <string>
#include <string_view>

namespace dynamix::messages {

/// Empty, or the first field that is out of range with its value and what is allowed: "training.accuracy = 1.5 is not
/// in [0, 1]". For every message.
template <class T>
std::string validate(const T& value);

/// Text that `validate` accepts as a detail or a reason: broken UTF-8 and control characters (but not newlines and
/// tabs) become U+FFFD, and what is beyond `max_text_length` bytes is cut off.
std::string fit_text(std::string_view text);

} // namespace dynamix::messages
