// Programs come and go with their process. Needs root and BTF; skipped elsewhere.

#include "telemetry/survey.hpp"
#include "telemetry/training_thread.hpp"
#include "tests/unit/telemetry/become_user.hpp"
#include "tests/unit/telemetry/loopback.hpp"
#include "tests/unit/telemetry/needs_bpf.hpp"
#include "tests/wait_until.hpp"

#include <bpf/bpf.h>
#include <chrono>
#include <csignal>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

namespace dynamix::telemetry {
namespace {

bool exists(const std::pair<std::string, unsigned>& object) {
  const auto& [kind, number] = object;
  const int descriptor = kind == "prog_id"  ? bpf_prog_get_fd_by_id(number)
                         : kind == "map_id" ? bpf_map_get_fd_by_id(number)
                                            : bpf_link_get_fd_by_id(number);
  if (descriptor >= 0)
    ::close(descriptor);
  return descriptor >= 0;
}

/// The kernel frees them a little later.
::testing::AssertionResult all_go(const kernel_objects& objects) {
  for (const auto& object : objects)
    if (!wait_until([&] { return !exists(object); }))
      return ::testing::AssertionFailure() << object.first << " " << object.second << " is still there";
  return ::testing::AssertionSuccess();
}

class KernelLife : public needs_bpf {};

TEST_F(KernelLife, LeavesNothingBehindAfterAHundredStartsAndStops) {
  kernel_objects seen;
  std::string group;
  for (int cycle = 0; cycle < 100; ++cycle) {
    const auto session = open_kernel_session({});
    ASSERT_TRUE(session->network) << session->network_problem;
    ASSERT_TRUE(session->scheduler) << session->scheduler_problem;
    group = session->group->path();
    EXPECT_TRUE(std::filesystem::exists(group));
    seen.merge(held_objects());
  }
  EXPECT_GT(seen.size(), 100U * 10);
  EXPECT_TRUE(held_objects().empty());
  EXPECT_FALSE(std::filesystem::exists(group));
  EXPECT_TRUE(all_go(seen));
}

TEST_F(KernelLife, LeavesNoProgramBehindWhenItIsKilledAndItsGroupToWhoeverComesNext) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto session = open_kernel_session({});
    std::string said = session->group ? session->group->path() : "none";
    for (const auto& [kind, number] : held_objects())
      said += "\n" + kind + " " + std::to_string(number);
    said += "\nend\n";
    if (::write(ends[1], said.data(), said.size()) < 0)
      ::_exit(1);
    ::pause();
  }
  ::close(ends[1]);
  std::string said;
  char letter = 0;
  while (!said.ends_with("\nend\n") && ::read(ends[0], &letter, 1) == 1)
    said += letter;
  ::close(ends[0]);
  std::istringstream words(said);
  std::string group;
  words >> group;
  kernel_objects objects;
  for (std::pair<std::string, unsigned> object; words >> object.first >> object.second;)
    objects.insert(object);
  ASSERT_GT(objects.size(), 10U);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(all_go(objects));
  EXPECT_NE(group, "none");
  remove_abandoned_cgroups(); // unless a host that has started beside this test came first
  EXPECT_FALSE(std::filesystem::exists(group));
}

TEST_F(KernelLife, GoesOnCountingWithoutPrivilegesInAnyThread) {
  const auto problem = in_child([]() -> std::string {
    std::atomic<bool> end = false;
    privileges in_thread;
    std::thread bystander([&] {
      while (!end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      in_thread = own_privileges();
    });
    auto session = open_kernel_session({});
    const auto kept = drop_privileges();
    end = true;
    bystander.join();
    if (!kept.empty() || own_privileges() != privileges{} || in_thread != privileges{})
      return "privileges were kept: " + kept;
    if (load_scheduler_programs(session->scheduler_problem))
      return "a program was loaded without privileges";
    std::thread([&] { mark_training_thread(); }).join();
    window_meter meter(choose_sources({.ebpf = true}, session.get(), {}));
    const loopback_connection connection;
    connection.transfer(1'000'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto measured = meter.close_window();
    if (measured.network.source != messages::signal_source::ebpf ||
        measured.system.source != messages::signal_source::ebpf || measured.network.gradient_bytes_per_second <= 0)
      return "nothing was measured: " + measured.choice;
    const auto group = session->group->path();
    session.reset();
    meter = window_meter({});
    return std::filesystem::exists(group) ? "the group is still there" : "";
  });
  EXPECT_EQ(problem, "");
}

TEST_F(KernelLife, GivesWayToTcpInfoWhenSomebodyDetachesThePrograms) {
  const auto session = open_kernel_session({});
  ASSERT_TRUE(session->network) << session->network_problem;
  window_meter meter(choose_sources({.ebpf = true, .tcp_info = true}, session.get(), {}));
  const loopback_connection connection;
  connection.transfer(1'000'000);
  EXPECT_EQ(meter.close_window().network.source, messages::signal_source::ebpf);
  for (const auto& [kind, number] : held_objects())
    if (kind == "link_id") {
      const int link = bpf_link_get_fd_by_id(number);
      bpf_link_detach(link); // those of the scheduler cannot be detached
      ::close(link);
    }
  connection.transfer(1'000'000);
  const auto broken = meter.close_window();
  EXPECT_FALSE(broken.network.valid);
  EXPECT_NE(broken.choice.find("network: TCP_INFO, since the network programs in the kernel no longer run"),
            std::string::npos)
      << broken.choice;
  connection.transfer(1'000'000);
  EXPECT_EQ(meter.close_window().network.source, messages::signal_source::unprivileged);
}

TEST_F(KernelLife, CountsWhereTheCgroupMountIsHiddenAndLeavesNoGroupThere) {
  const auto parent = find_own_cgroups().unified;
  const auto problem = in_child([&]() -> std::string {
    // As `ip netns exec`, which puts another /sys before the one with the mount.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::umount2(parent.c_str(), MNT_DETACH) != 0)
      return "skip: no mount namespace";
    auto session = open_kernel_session({});
    if (!session->network)
      return session->network_problem;
    drop_privileges();
    window_meter meter(choose_sources({.ebpf = true}, session.get(), {}));
    const loopback_connection connection;
    connection.transfer(1'000'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto measured = meter.close_window();
    if (measured.network.source != messages::signal_source::ebpf || measured.network.gradient_bytes_per_second <= 0)
      return "nothing was measured: " + measured.choice;
    const auto group = session->group->path();
    const bool was_there = std::filesystem::exists(group);
    session.reset();
    meter = window_meter({});
    return !was_there ? "no group" : std::filesystem::exists(group) ? "the group is still there" : "";
  });
  if (problem.starts_with("skip"))
    GTEST_SKIP() << problem;
  EXPECT_EQ(problem, "");
}

/// What an ordinary user with these capabilities and a group to divide finds.
std::string survey_as_user(privileges may, const std::string& group) {
  return in_child([&]() -> std::string {
    std::filesystem::create_directory(group);
    if (::chown(group.c_str(), 65534, 65534) != 0 || ::chown((group + "/cgroup.procs").c_str(), 65534, 65534) != 0)
      return "chown";
    std::ofstream(group + "/cgroup.procs") << 0;
    if (const auto problem = become_user(65534, may); !problem.empty())
      return problem;
    std::string found;
    for (const auto& each : advise(survey_machine()))
      found += each.signal + "=" + each.source + (each.command.find("setcap") != std::string::npos ? "! " : " ");
    return found;
  });
}

TEST_F(KernelLife, TellsAnOrdinaryUserWhatEachSetOfCapabilitiesGives) {
  const auto group = find_own_cgroups().unified + "/user-of-" + std::to_string(::getpid());
  const std::pair<privileges, std::string> sets[] = {
      {{}, "network=TCP_INFO! system=procfs! "},
      {{.bpf = true}, "network=TCP_INFO! system=procfs! "},
      {{.bpf = true, .perfmon = true}, "network=TCP_INFO! system=eBPF "},
      {{.bpf = true, .net_admin = true}, "network=eBPF system=procfs! "},
      {{.bpf = true, .perfmon = true, .net_admin = true}, "network=eBPF system=eBPF "}};
  for (const auto& [may, expected] : sets) {
    const auto found = survey_as_user(may, group);
    EXPECT_TRUE(found.starts_with(expected)) << found << " instead of " << expected;
  }
  ::rmdir(group.c_str());
}

} // namespace
} // namespace dynamix::telemetry
