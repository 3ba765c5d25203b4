#pragma once

/// Memory that ends as an exception in training, which then computes in smaller parts, rather than with the process.

#include <cstdint>

namespace dynamix::trainer {

/// Of this process in memory, but for what a file backs; 0 if it cannot be read.
std::uint64_t own_resident_bytes();

/// From now on the allocation of a tensor on the CPU fails where it would take `own_resident_bytes` beyond `bytes`, as
/// it does where the machine's memory ends; 0: no more. Small ones do not: so leave a few MB.
void limit_tensor_memory(std::uint64_t bytes);

} // namespace dynamix::trainer
