#pragma once

/// The meaning of every field, checked on both sides: the codec sends nothing and accepts nothing that fails here.

#include "messages/tree.hpp"

#include <string>
#include <string_view>

namespace dynamix::messages {

/// Returns an empty string, or the first field that makes no sense with its value and what is allowed:
/// "training.accuracy = 1.5 is not in [0, 1]".
std::string validate(const hello& value);
std::string validate(const welcome& value);
std::string validate(const window_report& value);
std::string validate(const evaluation_report& value);
std::string validate(const farewell& value);
std::string validate(const shard_report& value);
std::string validate(const decision& value);
std::string validate(const trajectory& value);
std::string validate(const policy_version& value);
std::string validate(const store_operation& value);
std::string validate(const store_result& value);
std::string validate(const placement& value);
std::string validate(const generation_notice& value);
std::string validate(const heartbeat& value);
std::string validate(const shard_hello& value);
std::string validate(const absence& value);
std::string validate(const beat_summary& value);
std::string validate(const shard_window& value);
std::string validate(const guidance& value);
std::string validate(const shard_order& value);
std::string validate(const recipients& value);

/// Text that `validate` accepts as a detail or a reason: broken UTF-8 and control characters (but not newlines and
/// tabs) become U+FFFD, and what is beyond `max_text_length` bytes is cut off.
std::string fit_text(std::string_view text);

} // namespace dynamix::messages
