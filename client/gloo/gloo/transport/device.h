#pragma once

namespace gloo::transport {

// See gloo/context.h.

class Device;

class UnboundBuffer {
public:
  virtual ~UnboundBuffer() = default;
};

} // namespace gloo::transport
