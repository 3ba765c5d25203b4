#pragma once

/// Hosts in network namespaces of their own on one machine, joined by a bridge: everything that they say to each other
/// can be cut, gradients too. Needs root and iproute2.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::faults {

///   host's namespace: eth0 --veth-- bridge 0 (whole) or bridge 1 (cut off, with others of its group)
class namespaces {
public:
  namespaces() = default;
  namespaces(const namespaces&) = delete;
  namespaces& operator=(const namespaces&) = delete;
  /// Removes all that was made.
  ~namespaces() { remove(); }

  /// One namespace a host, at most 200; those that a process left which was killed go first. Returns an empty string,
  /// or why there are none; then there is none.
  std::string create(const std::vector<std::string>& hosts);
  bool created() const { return !hosts_.empty(); }

  std::string address(const std::string& host) const;
  /// What stands before a program and its arguments to run it there; the process keeps its id.
  std::vector<std::string> command(const std::string& host) const;
  /// Puts a host apart from all that are not apart, or back. Returns an empty string, or what went wrong.
  std::string set_apart(const std::string& host, bool apart) const;
  /// Bytes that the host has sent into its bridge.
  std::uint64_t sent_bytes(const std::string& host) const;

private:
  void remove();
  std::size_t index_of(const std::string& host) const;
  std::string make(std::size_t index) const;
  std::string name(std::size_t index) const;
  std::string port(std::size_t index) const;
  std::string bridge(bool apart) const;

  std::vector<std::string> hosts_;
  std::string prefix_; ///< of the interfaces' names, with this process's id
};

/// The process that made a namespace or an interface of this name; 0: none did.
int maker_of(const std::string& name);

} // namespace dynamix::faults
