#include "telemetry/survey.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace dynamix::telemetry {
namespace {

using messages::signal_source;
using testing::HasSubstr;

/// As survey_machine would find them for an ordinary user in a group of its own, with these capabilities.
machine_facts facts_with(privileges may) {
  machine_facts facts{.may = may,
                      .unified_cgroup = "/sys/fs/cgroup/user",
                      .unified_mount = "/sys/fs/cgroup",
                      .tcp_info = true,
                      .procfs = true,
                      .pressure = true,
                      .program = "/opt/dynamix-node",
                      .user = 1000,
                      .shell = 77};
  if (!may.bpf || !may.net_admin)
    facts.network_problem = "it takes CAP_BPF and CAP_NET_ADMIN";
  if (!may.bpf || !may.perfmon)
    facts.scheduler_problem = "it takes CAP_BPF and CAP_PERFMON";
  return facts;
}

TEST(Advice, FollowsTheCapabilities) {
  struct expectation {
    privileges may;
    bool network;
    bool scheduler;
  };
  const expectation sets[] = {{{}, false, false},
                              {{.bpf = true}, false, false},
                              {{.bpf = true, .perfmon = true}, false, true},
                              {{.bpf = true, .net_admin = true}, true, false},
                              {{.bpf = true, .perfmon = true, .net_admin = true}, true, true}};
  const std::string grant = "sudo setcap cap_bpf,cap_perfmon,cap_net_admin=ep /opt/dynamix-node";
  for (const auto& each : sets) {
    const auto advice = advise(facts_with(each.may));
    ASSERT_EQ(advice.size(), 4U);
    EXPECT_EQ(advice[0].level, each.network ? signal_source::ebpf : signal_source::unprivileged);
    EXPECT_EQ(advice[0].command, each.network ? "" : grant);
    EXPECT_EQ(advice[1].level, each.scheduler ? signal_source::ebpf : signal_source::unprivileged);
    EXPECT_EQ(advice[1].command, each.scheduler ? "" : grant);
  }
}

TEST(Advice, HasACommandForEachThingThatIsMissing) {
  const privileges all{.bpf = true, .perfmon = true, .net_admin = true};
  auto facts = facts_with(all);
  facts.network_problem = "cannot make /sys/fs/cgroup/user/dynamix-5: Permission denied";
  EXPECT_EQ(
      advise(facts)[0].command,
      "sudo sh -c 'mkdir -p /sys/fs/cgroup/user/dynamix && chown -R 1000 /sys/fs/cgroup/user/dynamix && echo 77 > "
      "/sys/fs/cgroup/user/dynamix/cgroup.procs'");
  facts.network_problem = "cannot make /sys/fs/cgroup/user/dynamix-5: Read-only file system";
  EXPECT_EQ(advise(facts)[0].command, "sudo sh -c 'mount -o remount,rw,bind /sys/fs/cgroup'");
  facts.unified_cgroup = "";
  EXPECT_EQ(advise(facts)[0].command,
            "sudo sh -c 'mkdir -p /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup'");
  facts.network_problem = "loading the network programs: Operation not permitted";
  facts.unified_cgroup = "/sys/fs/cgroup";
  EXPECT_EQ(advise(facts)[0].command, "") << "nothing is known to help";
  EXPECT_THAT(advise(facts)[0].detail, HasSubstr("Operation not permitted"));
  facts = facts_with({});
  facts.user = 0;
  EXPECT_THAT(advise(facts)[0].command, HasSubstr("--cap-add BPF"));
  facts.missing_to_build = facts.network_problem = facts.scheduler_problem = "clang, bpftool";
  EXPECT_THAT(advise(facts)[1].command, HasSubstr("apt-get install clang bpftool libbpf-dev"));
  facts.missing_to_build = "DYNAMIX_BPF, which is OFF";
  EXPECT_THAT(advise(facts)[1].command, HasSubstr("-DDYNAMIX_BPF=ON"));
  facts.pressure = false;
  EXPECT_EQ(advise(facts)[2].level, signal_source::none);
  EXPECT_THAT(advise(facts)[2].command, HasSubstr("psi=1"));
}

TEST(Advice, FitsAContainer) {
  auto facts = facts_with({.bpf = true, .perfmon = true, .net_admin = true});
  facts.user = 0;
  facts.network_problem = "cannot make /sys/fs/cgroup/dynamix-5: Read-only file system";
  EXPECT_THAT(advise(facts)[0].command, HasSubstr("docker run --cgroupns host --volume /sys/fs/cgroup:/sys/fs/cgroup"));
  facts.may_mount = true;
  EXPECT_EQ(advise(facts)[0].command, "mount -o remount,rw,bind /sys/fs/cgroup");
  facts.scheduler_problem = "/sys is not mounted";
  facts.has_sys = false;
  EXPECT_EQ(advise(facts)[1].command, "mount -t sysfs sysfs /sys");
  facts.in_user_namespace = true;
  EXPECT_EQ(advise(facts)[0].command, "") << "no capability helps there";
  EXPECT_EQ(advise(facts)[1].command, "");
  facts.has_proc = facts.procfs = facts.tcp_info = facts.pressure = false;
  for (int signal = 0; signal < 3; ++signal)
    EXPECT_EQ(advise(facts)[signal].command, "mount -t proc proc /proc");
}

TEST(Advice, GrantsCapabilitiesOtherwiseWhereThoseOfFilesDoNotCount) {
  auto facts = facts_with({});
  facts.setcap_counts = false;
  EXPECT_THAT(advise(facts)[0].command,
              HasSubstr("sudo setpriv --reuid $(id -u) --regid $(id -g) --init-groups --inh-caps +bpf"));
}

TEST(Advice, SaysNoneWhereNothingWorks) {
  machine_facts facts{.network_problem = "no", .scheduler_problem = "no", .gpu_problem = "there is no GPU"};
  for (const auto& each : advise(facts)) {
    EXPECT_EQ(each.level, signal_source::none) << each.signal;
    EXPECT_EQ(each.source, "none");
    EXPECT_FALSE(each.detail.empty());
  }
}

TEST(Survey, FindsAtLeastTheUnprivilegedSourcesOnLinux) {
  const auto facts = survey_machine();
  EXPECT_TRUE(facts.tcp_info);
  EXPECT_TRUE(facts.procfs);
  EXPECT_FALSE(facts.program.empty());
  for (const auto& each : advise(facts))
    EXPECT_FALSE(each.detail.empty()) << each.signal;
}

TEST(Sources, AreChosenByWhatIsWanted) {
  const auto chains = choose_sources({.tcp_info = true}, nullptr, {});
  ASSERT_EQ(chains.size(), 4U);
  EXPECT_EQ(chains[0].best_first.size(), 1U);
  EXPECT_EQ(chains[0].reason, "not eBPF: [telemetry] sources leaves it out");
  EXPECT_TRUE(chains[1].best_first.empty());
  kernel_session session{.network_problem = "no CAP_BPF"};
  EXPECT_EQ(choose_sources({.ebpf = true}, &session, {})[0].reason, "not eBPF: no CAP_BPF");
}

TEST(Sources, OfAnotherProcessAreChosenByWhatIsWanted) {
  kernel_session session{.network_problem = "no CAP_BPF", .scheduler_problem = "no CAP_PERFMON", .of_another = true};
  const auto chains = choose_sources_of(::getpid(), {.ebpf = true, .procfs = true}, &session);
  ASSERT_EQ(chains.size(), 4U);
  EXPECT_EQ(chains[0].reason, "not eBPF: no CAP_BPF");
  EXPECT_TRUE(chains[0].best_first.empty());
  EXPECT_EQ(chains[1].reason, "not eBPF: no CAP_PERFMON");
  EXPECT_EQ(chains[1].best_first.size(), 1U);
}

} // namespace
} // namespace dynamix::telemetry
