#pragma once

#include <string>

namespace dynamix::node {

/// What this machine's processor, or its first NVIDIA device, calls itself; "unknown processor" where nothing says.
std::string machine_name(bool cuda);

} // namespace dynamix::node
