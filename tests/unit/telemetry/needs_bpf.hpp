#pragma once

#include "telemetry/kernel_session.hpp"
#include "telemetry/privileges.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace dynamix::telemetry {

/// Programs, maps and links of the kernel, by their kind and number.
using kernel_objects = std::set<std::pair<std::string, unsigned>>;

/// Those that this process holds.
inline kernel_objects held_objects() {
  kernel_objects held;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    for (std::string word; file >> word;)
      for (const std::string kind : {"prog_id", "map_id", "link_id"})
        if (unsigned number = 0; word == kind + ":" && file >> number)
          held.emplace(kind, number);
  }
  return held;
}

/// Runs in a process of its own, which may take part in other namespaces and groups. Returns an empty string, or what
/// `work` says is wrong.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0)
    return "no pipe";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const auto said = work();
    const bool written = ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t length = 0; (length = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<std::size_t>(length));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said : said + " (the child process was ended)";
}

/// Tests that load programs; skipped, with the reason, where that is not possible.
class needs_bpf : public testing::Test {
protected:
  void SetUp() override {
    if (const auto missing = missing_to_build(); !missing.empty())
      GTEST_SKIP() << "needs eBPF, and this build is without it: " << missing;
    if (own_privileges() != privileges{true, true, true} || ::geteuid() != 0)
      GTEST_SKIP() << "needs root with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN";
    if (!std::filesystem::exists("/sys/kernel/btf/vmlinux"))
      GTEST_SKIP() << "needs a kernel that tells its types (/sys/kernel/btf/vmlinux)";
    if (find_own_cgroups().unified.empty())
      GTEST_SKIP() << "needs cgroup version 2";
    if (std::ofstream probe(find_own_cgroups().unified + "/cgroup.procs"); !probe)
      GTEST_SKIP() << "needs cgroup version 2 mounted for writing";
    std::string problem;
    if (!load_scheduler_programs(problem))
      GTEST_SKIP() << "needs a kernel that lets programs be loaded: " << problem;
  }
};

} // namespace dynamix::telemetry
