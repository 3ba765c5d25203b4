/// Agents whose training processes are the user's: here the test itself, frame by frame, or children of it.

#include "client/cores.hpp"
#include "messages/leave.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/scripted_client.hpp"
#include "tests/cluster/trial.hpp"

#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Clients : public trial {
protected:
  void write_client_file(const std::string& more = "") {
    write_file({.dataset = "unused",
                .training = "trainer = \"client\"\n",
                .arbitrator = "policy = \"goodput\"\n",
                .cluster = patient_cluster + more});
  }
  /// `local`, once its agents listen.
  program start_agents() {
    auto agents = start_local();
    EXPECT_TRUE(wait_until([&] { return agents.says("export DYNAMIX_AGENT=") || !agents.running(); }));
    EXPECT_TRUE(agents.running()) << agents.said();
    return agents;
  }
  scripted_client client(std::size_t slot, std::uint64_t steps = 0) const {
    return scripted_client(run().agent(slot), 2, steps);
  }
  std::string log_of(const std::string& host) const { return contents_of(run().log(host)); }
  /// Until the agent of that slot answers, whoever it is now.
  bool wait_for_agent(std::size_t slot) const {
    return wait_until([&] {
      frame_client probe(run().agent(slot));
      if (!probe.connected())
        return false;
      probe.send(messages::client_hello{.members = 9, .incarnation = 3}); // refused, by an agent that is up
      return probe.await<messages::client_welcome>().has_value();
    });
  }
  bool wait_for_log(const std::string& host, const std::string& text) const {
    return wait_until([&] { return log_of(host).find(text) != std::string::npos; });
  }
  /// Both clients train a window and leave, with which the run ends.
  void expect_training_to_end(program& agents) const {
    auto first = client(0);
    auto second = client(1);
    ASSERT_TRUE(first.await_place() && second.await_place());
    first.train_window();
    second.train_window();
    first.say_farewell();
    second.say_farewell();
    EXPECT_EQ(agents.wait().code, 0);
  }
  /// A child of this process that does something with a client and then stops to act.
  pid_t child(const std::function<void()>& act) const {
    const pid_t id = fork();
    if (id != 0)
      return id;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    act();
    for (;;)
      pause();
  }
  static void kill_child(pid_t id) {
    ASSERT_EQ(kill(id, SIGKILL), 0);
    ASSERT_EQ(waitpid(id, nullptr, 0), id);
  }
};

TEST_F(Clients, JoinReportAreDecidedForAndFinish) {
  write_client_file();
  auto agents = start_agents();
  struct stat socket {};
  ASSERT_EQ(::stat(run().agent(0).c_str(), &socket), 0);
  EXPECT_EQ(socket.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(run().agents().c_str(), &socket), 0);
  EXPECT_EQ(socket.st_mode & 0777U, 0700U);
  auto first = client(0);
  auto second = client(1);
  EXPECT_EQ(first.welcome.host, "w0");
  EXPECT_EQ(second.welcome.rank, 1U);
  EXPECT_EQ(second.welcome.workers, 2U);
  EXPECT_EQ(second.welcome.window_steps, window_steps);
  EXPECT_EQ(second.welcome.highest_batch, 256U);
  ASSERT_TRUE(first.await_place() && second.await_place());
  EXPECT_EQ(first.generation, 1U);
  for (int window = 0; window < 6; ++window) {
    first.train_window();
    second.train_window();
    ASSERT_TRUE(first.await_decision() && second.await_decision());
  }
  first.frames.send(messages::evaluation_report{.step = 12, .epoch = 1, .test_loss = 0.5, .test_accuracy = 0.75});
  first.say_farewell();
  second.say_farewell();
  const auto ended = agents.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  const auto told = windows();
  ASSERT_EQ(told.size(), 6U);
  EXPECT_EQ(told[5].workers[1].report.host, "w1");
  EXPECT_EQ(told[5].workers[1].report.decision, (messages::decision_key{told[5].key.term, 5}));
  EXPECT_TRUE(told[5].workers[0].report.system.valid);
  const auto farewell = farewell_of("w1");
  EXPECT_TRUE(farewell.succeeded);
  EXPECT_EQ(farewell.steps, 12U);
  EXPECT_EQ(farewell.decisions.received, 6U);
  EXPECT_EQ(farewell.decisions.applied, 5U);
  EXPECT_EQ(rows<ledger::evaluation>().size(), 1U);
}

TEST_F(Clients, AreWaitedForAndRefusedWithAReason) {
  write_client_file();
  auto agents = start_agents();
  EXPECT_TRUE(wait_for_log("w0", "waiting for the training process at " + run().agent(0)));
  auto first = client(0);
  frame_client second(run().agent(0));
  const auto taken = second.greet(2);
  EXPECT_EQ(taken.verdict, messages::client_verdict::slot_taken);
  EXPECT_THAT(taken.detail, HasSubstr("training process " + std::to_string(getpid()) + " has the slot of host w0"));
  frame_client many(run().agent(1));
  EXPECT_THAT(many.greet(5).detail, HasSubstr("this training has 5 processes, and the cluster file has 2 workers"));
  frame_client old(run().agent(1));
  EXPECT_EQ(old.greet(2, 0, 1, messages::newest_protocol + 1).verdict, messages::client_verdict::protocol_mismatch);
  frame_client huge(run().agent(1));
  const std::uint32_t words = 1U << 20;
  huge.send_bytes(&words, sizeof(words));
  EXPECT_FALSE(huge.receive().has_value());
  EXPECT_TRUE(huge.ended());
  EXPECT_TRUE(wait_for_log("w1", "it sends a frame of 8388608 bytes"));
  frame_client noise(run().agent(1));
  const std::array<std::uint32_t, 5> garbage = {2, 0xdeadbeef, 0x12345678, 0xdeadbeef, 0x12345678};
  noise.send_bytes(garbage.data(), sizeof(garbage));
  EXPECT_FALSE(noise.receive().has_value());
  EXPECT_TRUE(noise.ended());
  EXPECT_TRUE(wait_for_log("w1", "it sends what is not a message"));
  EXPECT_TRUE(generations().empty()) << "nobody is placed before all are there";
  agents.signal(SIGINT);
  EXPECT_NE(agents.wait().code, 0);
}

TEST_F(Clients, ComeBackAfterALossInOneGenerationOfAll) {
  write_client_file();
  auto agents = start_agents();
  std::array<int, 2> never_read{};
  ASSERT_EQ(pipe(never_read.data()), 0);
  // It forks a loader worker, which keeps the socket when it is killed.
  const pid_t killed = child([&] {
    auto* leaked = new scripted_client(run().agent(0), 2);
    leaked->await_place();
    leaked->train_window();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      close(never_read[1]);
      char byte = 0;
      [[maybe_unused]] const auto end = read(never_read[0], &byte, 1); // until this test's end of it is closed
      _exit(0);
    }
  });
  close(never_read[0]);
  auto second = client(1);
  ASSERT_TRUE(second.await_place());
  second.train_window();
  ASSERT_TRUE(wait_for_windows(1));
  kill_child(killed);
  EXPECT_TRUE(wait_for_log("w0", "it has ended"));
  EXPECT_TRUE(wait_until([&] {
    const auto told = rows<ledger::event>();
    return std::ranges::any_of(told, [](const auto& event) {
      return event.event == ledger::event_kind::lost && event.host == "w0" &&
             event.text.find("training process") != std::string::npos;
    });
  }));
  auto third = client(0, 1);
  ASSERT_TRUE(third.await_place());
  ASSERT_TRUE(second.await_place());
  EXPECT_EQ(third.generation, second.generation);
  EXPECT_GT(third.generation, 1U);
  third.say_farewell();
  second.say_farewell();
  const auto ended = agents.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  close(never_read[1]);
  for (const auto& generation : generations())
    EXPECT_THAT(generation.members, ElementsAre("w0", "w1")) << "their group is never a part of them";
}

TEST_F(Clients, FindAnAgentThatWasKilledBeforeAnyTraining) {
  write_client_file();
  auto agents = start_agents();
  ASSERT_TRUE(agents.signal_host("w0", SIGKILL));
  ASSERT_TRUE(wait_for_agent(0));
  expect_training_to_end(agents);
}

/// Two clients that have trained a window.
class TrainingClients : public Clients {
protected:
  void SetUp() override {
    write_client_file();
    agents.emplace(start_agents());
    first.emplace(run().agent(0), 2);
    second.emplace(run().agent(1), 2);
    ASSERT_TRUE(first->await_place() && second->await_place());
    first->train_window();
    second->train_window();
    ASSERT_TRUE(wait_for_windows(1));
  }

  std::optional<program> agents;
  std::optional<scripted_client> first;
  std::optional<scripted_client> second;
};

TEST_F(TrainingClients, GoOnWhenTheirAgentIsKilledAndComeBack) {
  ASSERT_TRUE(agents->signal_host("w0", SIGKILL));
  EXPECT_FALSE(first->frames.await<messages::client_notice>().has_value());
  EXPECT_TRUE(first->frames.ended());
  // Its agent is started again, and the client says hello with the steps that it has completed meanwhile.
  ASSERT_TRUE(wait_for_agent(0));
  auto back = client(0, first->steps() + 4);
  ASSERT_TRUE(back.await_place());
  ASSERT_TRUE(second->await_place());
  EXPECT_EQ(back.generation, second->generation);
  back.train_window();
  back.say_farewell();
  second->say_farewell();
  EXPECT_EQ(agents->wait().code, 0);
}

TEST_F(TrainingClients, AreAskedToStopAndEndInOrder) {
  agents->signal(SIGINT);
  ASSERT_TRUE(first->frames.await<messages::client_notice>().has_value());
  ASSERT_TRUE(second->frames.await<messages::client_notice>().has_value());
  first->say_farewell(true, "completed");
  second->say_farewell(true, "its budget is spent");
  agents->wait();
  EXPECT_EQ(messages::end_of(farewell_of("w0")), messages::farewell_end::stopped);
  EXPECT_EQ(farewell_of("w0").reason, "stopped");
  EXPECT_EQ(messages::end_of(farewell_of("w1")), messages::farewell_end::stopped);
  EXPECT_EQ(farewell_of("w1").reason, "its budget is spent");
}

/// "w0" and "w1" with two workers each, all with keys and each with a run directory of its own, as on machines of their
/// own.
class ClientsOfSharedHosts : public Clients {
protected:
  void SetUp() override {
    write_file({.dataset = "unused",
                .more = "[security]\nkeys = \"keys\"\n",
                .training = "trainer = \"client\"\n",
                .arbitrator = "policy = \"goodput\"\n",
                .cluster = patient_cluster});
    for (const std::string name : {"w0", "w1"})
      replace_in_file("name = \"" + name + "\"\n", "name = \"" + name + "\"\nworkers = 2\n");
    const auto made = end_of({"keys", "init", "--cluster", file()});
    ASSERT_EQ(made.code, 0) << made.output;
    hub.emplace(start_host("hub"));
    first.emplace(start_apart("w0"));
    second.emplace(start_apart("w1"));
    for (const auto* host : {"w0", "w1"})
      for (const std::size_t slot : {0, 1})
        ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(run_of(host).agent(slot)); }))
            << hub->said() << first->said() << second->said();
  }
  node::run_directory run_of(const std::string& host) const {
    return node::run_directory(directory_.path() + "/" + host);
  }
  program start_apart(const std::string& host) const {
    return start({"run", "--cluster", file(), "--name", host, "--out", run_of(host).path(), "--log-to-stderr"});
  }

  std::optional<program> hub;
  std::optional<program> first;
  std::optional<program> second;
};

TEST_F(ClientsOfSharedHosts, OutliveEachOtherAndEndTogether) {
  const pid_t killed = child([&] {
    auto* leaked = new scripted_client(run_of("w0").agent(1), 4);
    leaked->await_place();
    leaked->train_window();
  });
  std::deque<scripted_client> others;
  others.emplace_back(run_of("w0").agent(0), 4);
  others.emplace_back(run_of("w1").agent(0), 4);
  others.emplace_back(run_of("w1").agent(1), 4);
  std::set<std::uint32_t> ranks;
  for (auto& one : others) {
    ranks.insert(one.welcome.rank);
    EXPECT_EQ(one.welcome.workers, 4U);
    EXPECT_EQ(one.welcome.gpu, -1);
    ASSERT_TRUE(one.await_place()) << hub->said() << first->said() << second->said();
    one.train_window();
  }
  EXPECT_EQ(ranks, (std::set<std::uint32_t>{0, 2, 3}));
  EXPECT_EQ(others[2].welcome.host, "w1/1");
  if (!others[1].welcome.cores.empty()) {
    EXPECT_THAT(others[1].welcome.cores, Not(Contains(others[2].welcome.cores.front())));
  }
  ASSERT_TRUE(wait_for_windows(1));
  for (auto& one : others)
    ASSERT_TRUE(one.await_decision());
  kill_child(killed);
  EXPECT_TRUE(wait_until([&] { return first->says("client_lost") && first->says("worker=w0/1"); })) << first->said();
  others.emplace_back(run_of("w0").agent(1), 4, 1);
  for (auto& one : others)
    ASSERT_TRUE(one.await_place()) << hub->said() << first->said() << second->said();
  for (auto& one : others) {
    EXPECT_EQ(one.generation, others.front().generation);
    EXPECT_FALSE(one.frames.ended()) << "its sibling's death costs it nothing";
    one.say_farewell();
  }
  for (auto* host : {&*hub, &*first, &*second})
    EXPECT_EQ(host->wait().code, 0) << host->said();
  for (const auto& generation : generations())
    EXPECT_THAT(generation.members, ElementsAre("w0/0", "w0/1", "w1/0", "w1/1"));
  for (const auto& event : rows<ledger::event>())
    if (event.event == ledger::event_kind::lost) {
      EXPECT_EQ(event.host, "w0/1") << event.text;
    }
  for (const auto* host : {"w0", "w1"})
    for (const auto* slot : {"0", "1"})
      EXPECT_TRUE(std::filesystem::exists(run_of(host).path() + "/workers/" + host + "+" + slot + ".json"));
}

TEST_F(Clients, OfOneHostFindItsAgentAgain) {
  write_file({.slowdowns = {1},
              .dataset = "unused",
              .training = "trainer = \"client\"\n",
              .arbitrator = "policy = \"goodput\"\n",
              .cluster = patient_cluster});
  replace_in_file("name = \"w0\"\n", "name = \"w0\"\nworkers = 2\n");
  auto agents = start_agents();
  {
    auto before = client(0);
    auto sibling = client(1);
    ASSERT_TRUE(before.await_place() && sibling.await_place());
    before.train_window();
    sibling.train_window();
    ASSERT_TRUE(wait_for_windows(1));
    ASSERT_TRUE(agents.signal_host("w0", SIGKILL));
    EXPECT_FALSE(before.frames.await<messages::client_notice>().has_value());
    EXPECT_TRUE(before.frames.ended());
  }
  ASSERT_TRUE(wait_for_agent(0) && wait_for_agent(1));
  auto first = client(0, window_steps);
  auto second = client(1, window_steps);
  ASSERT_TRUE(first.await_place() && second.await_place());
  first.train_window();
  second.train_window();
  first.say_farewell();
  second.say_farewell();
  const auto ended = agents.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_TRUE(farewell_of("w0/1").succeeded);
}

/// Beside an agent that has sockets, and does nothing more.
class ExecBesideAnAgent : public Clients {
protected:
  void SetUp() override {
    write_file(
        {.slowdowns = {1}, .dataset = "unused", .training = "trainer = \"client\"\n", .cluster = patient_cluster});
    replace_in_file("name = \"w0\"\n", "name = \"w0\"\ngpus = [4, 6]\n");
    ASSERT_EQ(run().create(), "");
    ASSERT_EQ(storage::write_file_atomically(run().cluster_file(), contents_of(file())), "");
    std::filesystem::create_directory(run().agents());
    for (const std::size_t slot : {0, 1})
      ASSERT_EQ(::mknod(run().agent(slot).c_str(), S_IFSOCK | 0600, 0), 0);
  }
  ended_program exec(std::vector<std::string> arguments, const std::string& script) const {
    arguments.insert(arguments.begin(), "exec");
    arguments.insert(arguments.end(), {"--run", run().path(), "--", "/bin/sh", "-c", script});
    return end_of(arguments);
  }
};

TEST_F(ExecBesideAnAgent, ShowsTheCommandItsSocketItsGpuAndItsCores) {
  const auto said = "echo \"$DYNAMIX_AGENT $CUDA_VISIBLE_DEVICES ${LOCAL_RANK-none}\"; "
                    "grep Cpus_allowed_list /proc/self/status; exit 3";
  const auto all = exec({"--name", "w0"}, said);
  EXPECT_EQ(all.code, 3) << all.output;
  EXPECT_THAT(all.output, HasSubstr(run().agents() + " 4,6 none\n"));
  EXPECT_THAT(all.output, Not(HasSubstr("error")));
  const auto one = exec({"--name", "w0", "--slot", "1"}, said);
  EXPECT_EQ(one.code, 3) << one.output;
  EXPECT_THAT(one.output, HasSubstr(run().agent(1) + " 6 0\n"));
  const auto own = client::split_cores(client::read_machine_cores(), 2)[1];
  if (!own.empty()) {
    EXPECT_THAT(one.output, HasSubstr("Cpus_allowed_list:\t" + client::to_cpu_list(own) + "\n"));
  }
}

TEST_F(ExecBesideAnAgent, SaysWhatIsWrong) {
  EXPECT_THAT(exec({"--name", "w0", "--slot", "2"}, "exit 3").output,
              HasSubstr("host w0 has 2 workers, counted from 0"));
  EXPECT_THAT(exec({"--name", "hub"}, "exit 3").output, HasSubstr("not a host of " + run().cluster_file()));
  EXPECT_THAT(exec({"--name", "w0/1"}, "exit 3").output, HasSubstr("not a host of " + run().cluster_file()));
  const auto unnamed = exec({"--slot", "1"}, "exit 3");
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_THAT(unnamed.output, HasSubstr("--slot needs --name"));
  EXPECT_THAT(exec({"--name", "w0", "--workers", "2"}, "exit 3").output, HasSubstr("it needs --run RUN"));
  const auto missing = end_of({"exec", "--name", "w0", "--run", run().path(), "--", "/no/such/program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.output, HasSubstr("cannot start /no/such/program"));
}

TEST_F(Clients, MayFailAndBeStartedAgain) {
  write_client_file();
  auto agents = start_agents();
  {
    auto first = client(0);
    auto second = client(1);
    ASSERT_TRUE(first.await_place() && second.await_place());
    first.train_window();
    first.say_farewell(false, "CUDA out of memory");
    EXPECT_TRUE(wait_for_log("w0", "CUDA out of memory"));
  }
  expect_training_to_end(agents);
}

} // namespace
} // namespace dynamix::cluster_test
