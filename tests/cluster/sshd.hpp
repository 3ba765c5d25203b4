#pragma once

/// An sshd of the test's own on loopback, which only the key of this test opens.

#include "node/launch/child_process.hpp"

#include <cstdint>
#include <string>

namespace dynamix::cluster_test {

class sshd {
public:
  static constexpr auto program = "/usr/sbin/sshd"; ///< without it there is none

  /// `directory`: of its files. `shell`: what people log in to, with a home of the test's own in `directory`; empty: as
  /// this user. Fails the test where it does not listen.
  void start(const std::string& directory, const std::string& shell = "");

  /// What reaches it, as `--ssh` takes it.
  std::string ssh() const;

private:
  std::string directory_;
  std::uint16_t port_ = 0;
  node::child_process process_;
};

} // namespace dynamix::cluster_test
