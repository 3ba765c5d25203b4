#pragma once

#include <algorithm>
#include <bpf/libbpf.h>
#include <cstddef>
#include <span>

namespace dynamix::telemetry {

/// Those of a program's slots that a CPU of this machine may write to; reading the others would cost more than these.
template <class Slot, std::size_t Size>
std::span<const Slot> slots_in_use(const Slot (&slots)[Size]) {
  const int cpus = libbpf_num_possible_cpus();
  return {slots, cpus > 0 ? std::min(static_cast<std::size_t>(cpus), Size) : Size};
}

} // namespace dynamix::telemetry
