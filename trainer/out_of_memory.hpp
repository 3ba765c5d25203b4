#pragma once

#include <exception>

namespace dynamix::trainer {

/// Whether it says that there is not enough memory, of the machine or of a device: std::bad_alloc, or what LibTorch's
/// allocators throw.
bool is_out_of_memory(const std::exception& error);

} // namespace dynamix::trainer
