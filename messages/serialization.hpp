#pragma once

/// How messages cross the network through CAF: as Cap'n Proto frames, made and read here and nowhere else. Numbers
/// travel only inside of them: CAF 0.17 damages or hangs on some floating-point values that are fields of its own.

#include "messages/message.hpp"

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/serializer.hpp>
#include <caf/type_id.hpp>

#include <string>

namespace dynamix::messages {

/// On the wire: the count of words (32 bits), then the words as they are. A value that every receiver would refuse is
/// logged, and arrives as a message without a value.
template <class T>
caf::error inspect(caf::serializer& sink, message<T>& value);
/// Refuses a count above `max_frame_words` before it allocates anything; that ends the connection. Whatever else is
/// wrong makes a message without a value.
template <class T>
caf::error inspect(caf::deserializer& source, message<T>& value);

/// "window_report": CAF prints unexpected messages whole.
template <class T>
std::string to_string(const message<T>&) {
  return std::string(kind_of<T>);
}

} // namespace dynamix::messages

// A block that other rooms chain theirs after: first id `caf::id_block::dynamix_messages::end`.
CAF_BEGIN_TYPE_ID_BLOCK(dynamix_messages, caf::first_custom_type_id)

#define MESSAGE(type, Schema) CAF_ADD_TYPE_ID(dynamix_messages, (dynamix::messages::message<dynamix::messages::type>))
#include "messages/fields.def"

CAF_END_TYPE_ID_BLOCK(dynamix_messages)
