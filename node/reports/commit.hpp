#pragma once

#include <string>

namespace dynamix::node {

/// The git commit that the program was built from, as 40 digits; with a "+" behind it when the tree had changes,
/// "unknown" outside git. Written by the build (cmake/commit.cmake).
const char* commit();
/// "dynamix-node 0.1.0 (8f3c...)"
std::string program_version();

} // namespace dynamix::node
