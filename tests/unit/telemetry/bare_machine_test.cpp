// What a survey finds where a container or a bare chroot hides or locks parts of the machine. Needs root and a mount
// namespace; skipped elsewhere.

#include "telemetry/survey.hpp"
#include "tests/unit/telemetry/become_user.hpp"
#include "tests/unit/telemetry/needs_bpf.hpp"

#include <gmock/gmock.h>

#include <sched.h>
#include <sys/mount.h>

namespace dynamix::telemetry {
namespace {

using testing::HasSubstr;

class BareMachine : public needs_bpf {
protected:
  /// Lines "signal source detail | command" as a process sees them that has changed its mounts by `change`. In a
  /// container root has no CAP_SYS_ADMIN.
  static std::string survey_after(const std::function<bool()>& change, bool container = false) {
    return in_child([&]() -> std::string {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || !change())
        return "skip: the mounts of a process cannot be changed here";
      if (container)
        if (const auto problem = become_user(0, {true, true, true}); !problem.empty())
          return problem;
      std::string found;
      for (const auto& each : advise(survey_machine()))
        found += each.signal + " " + each.source + " " + each.detail + " | " + each.command + "\n";
      return found;
    });
  }

  static bool hide(const std::string& directory) {
    return ::mount("none", directory.c_str(), "tmpfs", 0, nullptr) == 0;
  }
  static bool lock(const std::string& directory) {
    const char* name = directory.c_str();
    return ::mount(name, name, nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
           ::mount(name, name, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
};

/// Asserts in a test's own function.
#define SKIP_WITHOUT_MOUNTS(found)                                                                                     \
  if ((found).starts_with("skip"))                                                                                     \
  GTEST_SKIP() << (found)

TEST_F(BareMachine, HasTheNetworkProgramsWithoutTheKernelsTypes) {
  const auto found = survey_after([] { return hide("/sys/kernel/btf"); });
  SKIP_WITHOUT_MOUNTS(found);
  EXPECT_THAT(found, HasSubstr("network eBPF"));
  EXPECT_THAT(found, HasSubstr("system procfs"));
  EXPECT_THAT(found, HasSubstr("not eBPF: there is no /sys/kernel/btf/vmlinux"));
  EXPECT_THAT(found, HasSubstr("CONFIG_DEBUG_INFO_BTF (Debian"));
}

TEST_F(BareMachine, SaysWhenSysIsNotMounted) {
  const auto found = survey_after([] { return hide("/sys"); });
  SKIP_WITHOUT_MOUNTS(found);
  EXPECT_THAT(found, HasSubstr("network eBPF")) << "the cgroups are mounted for the process alone";
  EXPECT_THAT(found, HasSubstr("system procfs"));
  EXPECT_THAT(found, HasSubstr("/sys is not mounted, where the kernel tells its types | mount -t sysfs sysfs /sys"));
}

TEST_F(BareMachine, SaysWhenProcIsNotMounted) {
  const auto found = survey_after([] { return hide("/proc"); });
  SKIP_WITHOUT_MOUNTS(found);
  EXPECT_THAT(found, HasSubstr("not eBPF: /proc is not mounted | mount -t proc proc /proc"));
  EXPECT_THAT(found, HasSubstr("pressure none"));
}

TEST_F(BareMachine, CountsWhereSomethingLiesOverTheCgroups) {
  const auto group = find_own_cgroups().unified;
  const auto found = survey_after([&] { return hide(group); });
  SKIP_WITHOUT_MOUNTS(found);
  EXPECT_THAT(found, HasSubstr("network eBPF"));
}

TEST_F(BareMachine, TellsAContainersRootWhatItsEngineMustGive) {
  const auto mount = find_own_cgroups().unified_mount;
  for (const auto& take : {&BareMachine::hide, &BareMachine::lock}) {
    const auto found = survey_after([&] { return take(mount); }, true);
    SKIP_WITHOUT_MOUNTS(found);
    EXPECT_THAT(found, HasSubstr("network TCP_INFO"));
    EXPECT_THAT(found, HasSubstr("| docker run --cgroupns host --volume /sys/fs/cgroup:/sys/fs/cgroup --cap-add BPF"));
    EXPECT_THAT(found, HasSubstr("system eBPF"));
  }
}

TEST_F(BareMachine, SaysHowCgroupsBecomeWritable) {
  const auto mount = find_own_cgroups().unified_mount;
  const auto found = survey_after([&] { return lock(mount); });
  SKIP_WITHOUT_MOUNTS(found);
  EXPECT_THAT(found, HasSubstr("Read-only file system | mount -o remount,rw,bind " + mount));
}

TEST_F(BareMachine, MeasuresAllThroughAProcAndASysThatAreReadOnly) {
  const auto found = survey_after([] { return lock("/proc") && lock("/sys"); });
  SKIP_WITHOUT_MOUNTS(found);
  for (const auto* each : {"network eBPF", "system eBPF", "pressure PSI"})
    EXPECT_THAT(found, HasSubstr(each));
}

TEST_F(BareMachine, KnowsThatCapabilitiesOfAUserNamespaceDoNotCount) {
  const auto found = in_child([]() -> std::string {
    if (::unshare(CLONE_NEWUSER) != 0 || !(std::ofstream("/proc/self/uid_map") << "0 0 1" << std::flush))
      return "skip: no user namespace can be made here";
    const auto session = open_kernel_session({});
    return session->network_problem + "\n" + session->scheduler_problem;
  });
  SKIP_WITHOUT_MOUNTS(found);
  const std::string why = "the process is in a user namespace (a rootless container), whose capabilities do not count";
  EXPECT_EQ(found, why + "\n" + why);
}

} // namespace
} // namespace dynamix::telemetry
