#pragma once

namespace gloo::transport {

class Device; // see gloo/context.h

} // namespace gloo::transport
