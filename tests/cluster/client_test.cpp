/// Agents whose training processes are the user's: here the test itself, frame by frame, or children of it.

#include "messages/leave.hpp"
#include "tests/cluster/trial.hpp"
#include "tests/unit/actors/frame_client.hpp"

#include <csignal>
#include <functional>
#include <optional>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

namespace dynamix::cluster_test {
namespace {

using dynamix::testing::frame_client;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t window_steps = 2;

/// One training process of several in lockstep: steps, reports windows, and puts every decision in force in the window
/// behind the one that it came in.
class scripted_client {
public:
  scripted_client(const std::string& socket, std::uint32_t members, std::uint64_t steps = 0)
      : frames(socket), steps_(steps) {
    EXPECT_TRUE(frames.connected()) << socket;
    welcome = frames.greet(members, 0, 7);
    EXPECT_EQ(welcome.verdict, messages::client_verdict::accepted) << welcome.detail;
    frames.beat(steps, 7);
  }

  bool await_place() {
    const auto place = frames.await<messages::placement>(patience);
    if (place)
      generation = place->generation;
    return place.has_value();
  }

  /// Trains a window and reports it.
  void train_window() {
    const auto window = steps_ / window_steps + 1;
    messages::window_report report{.host = "nobody",
                                   .rank = 0,
                                   .generation = 1,
                                   .window = window,
                                   .first_step = steps_,
                                   .batch = batch,
                                   .decision = in_force,
                                   .global_batch = std::uint64_t{2} * batch,
                                   .epoch_samples = steps_ * batch,
                                   .elapsed_seconds = 0.1 * static_cast<double>(window)};
    steps_ += window_steps;
    report.training = {.steps = window_steps,
                       .samples = std::uint64_t{window_steps} * batch,
                       .loss = 1,
                       .iteration_seconds = 0.05,
                       .compute_seconds = 0.04,
                       .exchange_seconds = 0.01};
    frames.send(report);
    frames.beat(steps_, 7);
  }
  bool await_decision() {
    const auto decision = frames.await<messages::decision>(patience);
    if (!decision)
      return false;
    in_force = decision->key;
    batch = decision->batch;
    return true;
  }
  void say_farewell(bool succeeded = true, const std::string& reason = "epochs completed") {
    frames.send(messages::farewell{.host = "nobody",
                                   .rank = 0,
                                   .succeeded = succeeded,
                                   .reason = reason,
                                   .steps = steps_,
                                   .samples = 1000,
                                   .epochs = 1,
                                   .wall_seconds = 2,
                                   .decisions = {}});
    EXPECT_FALSE(frames.receive().has_value());
    EXPECT_TRUE(frames.ended()) << "the agent closes the connection";
  }
  std::uint64_t steps() const { return steps_; }

  frame_client frames;
  messages::client_welcome welcome;
  std::uint64_t generation = 0;
  std::uint32_t batch = 64;
  messages::decision_key in_force;

private:
  std::uint64_t steps_;
};

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
  EXPECT_TRUE(wait_for_log("w1", "it sends what is no message"));
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
  auto first = client(0);
  auto second = client(1);
  ASSERT_TRUE(first.await_place() && second.await_place());
  first.train_window();
  second.train_window();
  first.say_farewell();
  second.say_farewell();
  EXPECT_EQ(agents.wait().code, 0);
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
  first->say_farewell(true, "stopped");
  second->say_farewell(true, "stopped");
  agents->wait();
  EXPECT_EQ(messages::end_of(farewell_of("w0")), messages::farewell_end::stopped);
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
  auto first = client(0);
  auto second = client(1);
  ASSERT_TRUE(first.await_place() && second.await_place());
  first.train_window();
  second.train_window();
  first.say_farewell();
  second.say_farewell();
  EXPECT_EQ(agents.wait().code, 0);
}

} // namespace
} // namespace dynamix::cluster_test
