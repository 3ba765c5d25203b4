#pragma once

/// Which CPUs each of several workers of a machine keeps to, and how a training process does.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::client {

/// The CPUs of a core, rising: one, or the threads that share it.
using cpu_core = std::vector<std::uint32_t>;
/// The cores of each node of a machine's memory, in the nodes' order.
using machine_cores = std::vector<std::vector<cpu_core>>;

/// The CPUs that this process may use, as sysfs describes them below `root`; one node where it does not. Nodes without
/// such CPUs are left out.
machine_cores read_machine_cores(const std::string& root = "/sys/devices/system");
/// The same of the CPUs `allowed`, rising.
machine_cores describe_cores(const std::string& root, const std::vector<std::uint32_t>& allowed);

/// Those that the calling thread may use, rising.
std::vector<std::uint32_t> allowed_cpus();

/// "0-3,8" as numbers, rising and each once; those behind what is not a list are left out.
std::vector<std::uint32_t> parse_cpu_list(const std::string& text);
/// The inverse.
std::string to_cpu_list(const std::vector<std::uint32_t>& cpus);

/// The CPUs of each of `workers`, rising: neighbouring cores of one node, as many for each as its node allows, and
/// whole nodes where there are more of them than workers. Empty lists where there are fewer cores than workers. Pure.
std::vector<std::vector<std::uint32_t>> split_cores(const machine_cores& machine, std::size_t workers);

/// What of `present`, the CPUs that a thread may use, it is to keep to where `given` are its process's; both rising.
/// All of `given` where none of `present` is among them, and `present` where nothing is given. Pure.
std::vector<std::uint32_t> cpus_to_keep(const std::vector<std::uint32_t>& present,
                                        const std::vector<std::uint32_t>& given);

/// Keeps the threads that this process has, and with them those that they start, to the CPUs `given`. A process that
/// its user has bound to fewer of them stays so, and one that he has bound to others is left alone. Returns a line for
/// the user's log; empty: nothing is changed.
std::string keep_to_cpus(const std::vector<std::uint32_t>& given);

} // namespace dynamix::client
