#pragma once

/// PyTorch's wheels contain Gloo and export it, but ship none of its headers, of which c10d's ProcessGroupGloo.hpp
/// includes five. These declare what that header names, and nothing else: enough to make a c10d::ProcessGroupGloo and
/// use it as a c10d::Backend. No object of these classes is made, and no function of them called, by whoever includes
/// them. Where Gloo's own headers are installed, these take their place just the same.

#include <chrono>
#include <memory>

namespace gloo {

class Context {
public:
  void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo
