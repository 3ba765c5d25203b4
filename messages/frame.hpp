#pragma once

/// The one message type that crosses the network through CAF. Numbers travel only inside of it: CAF 0.17 damages or
/// hangs on some floating-point values that are fields of its own.

#include "messages/codec.hpp"

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/serializer.hpp>
#include <caf/type_id.hpp>

#include <string>

namespace dynamix::messages {

/// One encoded message. Sends inside a process share it.
using frame = shared_words;

/// "frame of 320 bytes": CAF prints unexpected messages whole.
std::string to_string(const frame& value);

/// On the wire: the count of words (32 bits), then the words as they are.
caf::error inspect(caf::serializer& sink, frame& value);
/// Refuses a count above `max_frame_words` before it allocates anything.
caf::error inspect(caf::deserializer& source, frame& value);

} // namespace dynamix::messages

// A block that other rooms chain theirs after: first id `caf::id_block::dynamix_messages::end`.
CAF_BEGIN_TYPE_ID_BLOCK(dynamix_messages, caf::first_custom_type_id)

CAF_ADD_TYPE_ID(dynamix_messages, (dynamix::messages::frame))

CAF_END_TYPE_ID_BLOCK(dynamix_messages)
