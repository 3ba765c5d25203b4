#pragma once

namespace dynamix::node {

/// The git commit that the program was built from, as 40 digits; with a "+" behind it when the tree had changes,
/// "unknown" outside git. Written by the build (cmake/commit.cmake).
const char* commit();

} // namespace dynamix::node
