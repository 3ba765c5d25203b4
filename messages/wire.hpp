#pragma once

/// Between structs and Cap'n Proto's readers and builders, field by field. Only for the codec. `read` checks no
/// meaning, but never takes more than one element beyond a limit, so that `validate` sees the excess and memory does
/// not.

#include "messages/codec.hpp"
#include "schema/dynamix.capnp.h"

#include <optional>

namespace dynamix::messages::wire {

#define MESSAGE(type, Schema) void write(const type& value, schema::Envelope::Builder envelope);
#include "messages/fields.def"

/// Nothing for an arm of the union that this release does not know.
std::optional<any_message> read(schema::Envelope::Reader envelope);

} // namespace dynamix::messages::wire
