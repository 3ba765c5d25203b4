// libdynamix.so as a training process uses it: through the C functions, with an agent at the other end of a real
// socket.

#include "tests/unit/client/agent_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <sched.h>
#include <sys/wait.h>
#include <thread>

extern "C" std::uint32_t dynamix_c99_trains(std::uint32_t steps);

namespace dynamix::client {
namespace {

using testing::Each;
using testing::HasSubstr;

/// Where the cluster file leaves open whether shares follow paces. Both members are this process, on one CPU.
class CrowdedTraining : public AgentTraining {
protected:
  CrowdedTraining() {
    balances_ = messages::balancing::automatic;
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    burner_ = std::thread([this] {
      while (!over_)
        ;
    });
  }
  ~CrowdedTraining() override {
    over_ = true;
    burner_.join();
    sched_setaffinity(0, sizeof before_, &before_);
  }

private:
  cpu_set_t before_;
  std::atomic<bool> over_ = false;
  std::thread burner_;
};

TEST_F(CrowdedTraining, SaysThatMembersShareCores) {
  for (int step = 0; step < 15; ++step) { // told behind the ninth, and judged in the next
    training_->train(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (std::uint32_t i = 0; i < 2; ++i)
    EXPECT_THAT(training_->notices(i), testing::Contains(HasSubstr("members 0, 1 share 1 CPU and would keep ")));
  training_->train(5);
  const auto first = agents_[0]->read_a<messages::window_report>();
  const auto second = agents_[0]->read_a<messages::window_report>();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->balance.shared_cpus, 1U);
  EXPECT_GT(second->balance.shared_demand, 1.25)
      << "two, but for what the system has not counted yet of a thread's wait";
  EXPECT_LE(second->balance.shared_demand, 2);
}

TEST_F(AgentTraining, ReportsWindowsAndPutsDecisionsInForceOnAllMembersAtOnce) {
  training_->train(10);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto report = agents_[i]->read_a<messages::window_report>();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->window, 1U);
    EXPECT_EQ(report->first_step, 0U);
    EXPECT_EQ(report->batch, 16U);
    EXPECT_EQ(report->global_batch, 32U);
    EXPECT_EQ(report->generation, 1U);
    EXPECT_EQ(report->epoch_samples, 320U);
    EXPECT_EQ(report->training.steps, 10U);
    EXPECT_EQ(report->training.samples, 160U);
    EXPECT_EQ(report->training.loss, 2);
    EXPECT_EQ(report->training.accuracy, 0.5);
    EXPECT_EQ(report->training.iteration_seconds, 0.25);
    EXPECT_EQ(report->training.compute_seconds, 0.125);
    EXPECT_EQ(report->training.untimed_steps, 3U);
    EXPECT_EQ(report->training.learning_rate, 0.5);
    EXPECT_TRUE(report->training.gradient_valid);
    EXPECT_EQ(report->decision, messages::decision_key{});
  }
  decide(0, 1, 24);
  decide(1, 1, 8);
  training_->train(10);
  EXPECT_EQ(training_->own(), (std::vector<std::uint32_t>{24, 8}));
  EXPECT_EQ(training_->status(0).decisions, 1U);
  EXPECT_THAT(training_->notices(0), testing::Contains(HasSubstr("window 1: batch 16 -> 24 from step 12 on")));
  const auto report = agents_[1]->read_a<messages::window_report>();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->batch, 8U);
  EXPECT_EQ(report->decision, (messages::decision_key{.term = 1, .window = 1}));
  std::array<std::uint32_t, 2> batches{};
  EXPECT_GOOD(training_->run(1), dynamix_batches(training_->run(1), batches.data(), 2));
  EXPECT_EQ(batches, (std::array<std::uint32_t, 2>{24, 8}));
}

TEST_F(AgentTraining, ReportsLossesOfAnySignAndThatNoneIsKnown) {
  for (const double loss : {-2.0, std::nan("")}) {
    training_->loss = loss;
    training_->train(10);
    const auto report = agents_[0]->read_a<messages::window_report>();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->training.loss, std::isnan(loss) ? 0 : loss);
    EXPECT_GOOD(training_->run(0), dynamix_evaluated(training_->run(0), -0.5, loss, -1));
    const auto evaluated = agents_[0]->read_a<messages::evaluation_report>();
    ASSERT_TRUE(evaluated);
    EXPECT_EQ(evaluated->train_loss, -0.5);
    EXPECT_EQ(evaluated->test_loss, report->training.loss);
  }
}

TEST_F(AgentTraining, NumbersWindowsOneByOneWhereStepsOfSeveralBatchesEndThem) {
  training_->batches = 3;
  training_->train(10);
  training_->start_epoch();
  training_->train(1);
  EXPECT_GOOD(training_->run(0), dynamix_finish(training_->run(0), 1, "the end"));
  const std::array<std::uint64_t, 5> ends{0, 12, 21, 30, 33};
  for (std::size_t window = 1; window < ends.size(); ++window) {
    const auto report = agents_[0]->read_a<messages::window_report>();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->window, window);
    EXPECT_EQ(report->first_step, ends.at(window - 1));
    EXPECT_EQ(report->training.steps, ends.at(window) - ends.at(window - 1));
    EXPECT_EQ(report->final, window == 4);
  }
}

TEST_F(AgentTraining, ReportsWhatWasInForceInAWindowWhereADecisionHoldsFromItsEndOn) {
  training_->train(9);
  decide(0, 1, 24, 10);
  decide(1, 1, 8, 10);
  training_->train(1);
  EXPECT_EQ(training_->status(0).batch, 24U);
  const auto report = agents_[0]->read_a<messages::window_report>();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->training.steps, 10U);
  EXPECT_EQ(report->batch, 16U);
  EXPECT_EQ(report->global_batch, 32U);
  EXPECT_EQ(report->decision, messages::decision_key{});
}

TEST_F(AgentTraining, PutsADecisionInForceOnlyOnceAllMembersHoldIt) {
  training_->train(10);
  decide(0, 1, 24);
  training_->train(2);
  EXPECT_EQ(training_->status(0).batch, 16U);
  decide(1, 1, 8);
  training_->train(2); // it is looked for in each of the next steps
  EXPECT_EQ(training_->status(0).batch, 24U);
  EXPECT_EQ(training_->status(1).batch, 8U);
}

TEST_F(AgentTraining, CountsADecisionAsAppliedWhenAStepWasDoneUnderIt) {
  training_->fetch_epoch(); // 31 steps of 32 samples and one of 8, whose batch sizes are settled
  training_->train(10);
  for (std::uint64_t window = 1; window <= 2; ++window) {
    decide(0, window, 20 + static_cast<std::uint32_t>(window));
    decide(1, window, 8);
    training_->train(2);
  }
  EXPECT_THAT(training_->notices(0), testing::Contains(HasSubstr("window 2: batch 21 -> 22 from step 32 on")));
  EXPECT_EQ(training_->status(0).decisions, 0U);
  training_->train(18);
  EXPECT_EQ(training_->status(0).decisions, 0U);
  training_->train(1);
  EXPECT_THAT(training_->own(), testing::ElementsAre(22, 8));
  EXPECT_EQ(training_->status(0).decisions, 1U) << "the second has taken the first one's place";
  auto ending = std::async(std::launch::async, [&] { return dynamix_finish(training_->run(0), 1, "done"); });
  const auto farewell = agents_[0]->read_a<messages::farewell>();
  agents_[0]->hang_up();
  EXPECT_EQ(ending.get(), DYNAMIX_OK);
  ASSERT_TRUE(farewell);
  EXPECT_EQ(farewell->decisions.received, 2U);
  EXPECT_EQ(farewell->decisions.applied, 1U);
  EXPECT_EQ(farewell->decisions.superseded, 1U);
}

TEST_F(AgentTraining, TakesNoDecisionAboveAWorkersLimit) {
  EXPECT_GOOD(training_->run(0), dynamix_limit_batch(training_->run(0), 12));
  training_->train(5);
  EXPECT_THAT(training_->own(), testing::ElementsAre(12, 16)) << "the limit holds for the batch in force too";
  decide(0, 1, 60);
  decide(1, 1, 8);
  training_->train(10);
  EXPECT_THAT(training_->own(), testing::ElementsAre(12, 8));
}

TEST_F(AgentTraining, GoesOnWithoutAnAgentThatDiesAndFindsItsSuccessor) {
  training_->train(10);
  agents_[0].reset();
  training_->train(10);
  EXPECT_EQ(training_->status(0).connected, 0U);
  EXPECT_EQ(training_->status(0).step, 20U);
  EXPECT_THAT(training_->notices(0), testing::Contains(HasSubstr("lost the agent")));
  agents_[0] = std::make_unique<scripted_agent>(path(0));
  bool back = false;
  for (int i = 0; i < 1000 && !back; ++i) { // it looks once a second
    training_->train(1);
    back = agents_[0]->accept(20);
  }
  ASSERT_TRUE(back);
  ASSERT_TRUE(agents_[0]->read_a<messages::client_hello>());
  agents_[0]->send(welcome_example(0));
  training_->train(1);
  const auto steps = training_->status(0).step;
  const auto beat = agents_[0]->read_a<messages::heartbeat>();
  ASSERT_TRUE(beat);
  EXPECT_THAT(beat->steps, testing::AnyOf(steps - 1, steps)) << "the welcome is taken in mid-step or behind it";
  EXPECT_EQ(training_->status(0).connected, 1U);
}

/// Where shares follow paces, or a worker's limit.
class BalancedTraining : public AgentTraining {
protected:
  BalancedTraining() { balances_ = messages::balancing::shares; }
};

TEST_F(BalancedTraining, ReportsNoMovesOfAnOutageAsThoseOfTheWindowBehindIt) {
  agents_[0].reset();
  EXPECT_GOOD(training_->run(1), dynamix_limit_batch(training_->run(1), 8));
  training_->train(20);
  const auto told = agents_[1]->read_a<messages::window_report>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->balance.moves, 1U);
  agents_[0] = std::make_unique<scripted_agent>(path(0));
  bool back = false;
  for (int i = 0; i < 1000 && !back; ++i) {
    training_->train(1);
    back = agents_[0]->accept(20);
  }
  ASSERT_TRUE(back);
  agents_[0]->send(welcome_example(0));
  training_->train(10);
  const auto report = agents_[0]->read_a<messages::window_report>();
  ASSERT_TRUE(report);
  EXPECT_GT(report->first_step, 10U);
  EXPECT_EQ(report->balance.moves, 0U);
}

TEST_F(AgentTraining, TakesDecisionsForTheOthersWhileAnAgentIsGone) {
  agents_[1].reset();
  training_->train(1);
  const auto smaller = agents_[0]->read_a<messages::client_hello>();
  ASSERT_TRUE(smaller);
  EXPECT_EQ(smaller->members, 1U);
  EXPECT_THAT(training_->notices(0), testing::Contains(HasSubstr("warning: the agent of member 1 is gone")));
  decide(0, 1, 24, 3);
  training_->train(9);
  EXPECT_THAT(training_->own(), testing::ElementsAre(24, 16));
  EXPECT_EQ(training_->status(0).decisions, 1U);
  EXPECT_EQ(training_->status(1).decisions, 0U);
  const auto report = agents_[0]->read_a<messages::window_report>();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->global_batch, 40U);
  EXPECT_EQ(report->base_batch, 19U) << "three fifths of 32";
  agents_[1] = std::make_unique<scripted_agent>(path(1));
  bool back = false;
  for (int i = 0; i < 1000 && !back; ++i) {
    training_->train(1);
    back = agents_[1]->accept(20);
  }
  ASSERT_TRUE(back);
  agents_[1]->send(welcome_example(1));
  training_->train(2);
  const auto whole = agents_[0]->read_a<messages::client_hello>();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->members, 2U);
  decide(0, 2, 20);
  training_->train(2);
  EXPECT_THAT(training_->own(), testing::ElementsAre(24, 16)) << "it is for both again";
}

TEST_F(AgentTraining, DropsAnAgentThatBreaksTheProtocolAndTrainsOn) {
  const std::vector<std::vector<std::uint8_t>> broken = {
      {0, 0, 0, 0},                                                 // no words
      {1, 0x20, 0, 0},                                              // 8,193
      {0xff, 0xff, 0xff, 0xff},                                     //
      {2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, // no message
  };
  for (std::size_t i = 0; i < broken.size(); ++i) {
    agents_[0]->send_bytes(broken[i]);
    training_->train(1);
    EXPECT_EQ(training_->status(0).connected, 0U) << i;
    bool back = false;
    for (int attempt = 0; attempt < 1000 && !back; ++attempt) {
      agents_[0]->hang_up();
      training_->train(1);
      back = agents_[0]->accept(20);
    }
    ASSERT_TRUE(back);
    agents_[0]->send(welcome_example(0));
    training_->train(1);
    EXPECT_EQ(training_->status(0).connected, 1U) << i;
  }
}

TEST_F(AgentTraining, NeverWaitsForAnAgentThatDoesNotRead) {
  training_->train(6000); // some 600 reports, more than the socket takes
  EXPECT_EQ(training_->status(0).step, 6000U);
}

TEST_F(AgentTraining, StopsAllMembersAtOneStepWhenOneIsAskedTo) {
  training_->train(10);
  agents_[1]->send(messages::client_notice{.reason = "asked for on the command line"});
  int steps = 0;
  while (steps < 20 && training_->step())
    ++steps;
  EXPECT_EQ(steps, 1) << "the rows of the next step say it";
  EXPECT_EQ(training_->status(0).stop, 1U);
  EXPECT_EQ(training_->status(0).step, training_->status(1).step);
  training_->start_epoch();
  EXPECT_FALSE(training_->step());
  auto ending = std::async(std::launch::async, [&] { return dynamix_finish(training_->run(0), 1, "stopped"); });
  const auto farewell = agents_[0]->read_a<messages::farewell>();
  ASSERT_TRUE(farewell);
  agents_[0]->hang_up();
  EXPECT_EQ(ending.get(), DYNAMIX_OK);
  EXPECT_EQ(farewell->end, messages::farewell_end::stopped);
  EXPECT_EQ(farewell->steps, 11U);
  EXPECT_EQ(farewell->samples, 11U * 32);
}

TEST_F(AgentTraining, RefusesCallsFromAForkedProcess) {
  training_->train(1);
  const pid_t child = fork();
  if (child == 0) {
    auto deal = sized<dynamix_deal>();
    const bool refused = dynamix_deal_next(training_->run(0), &deal) == DYNAMIX_ERROR &&
                         std::string(dynamix_error(training_->run(0))).find("only the process") != std::string::npos &&
                         dynamix_due(training_->run(0)) == 0;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  training_->train(1);
  EXPECT_EQ(training_->status(0).connected, 1U);
}

TEST(Library, RefusesABatchSizeWithASentenceThatIsTrue) {
  const auto problem_of = [](std::uint32_t batch, std::uint32_t highest) {
    const auto alone = open_run("").run;
    auto made = workload(batch);
    made.highest_batch = highest;
    std::array<std::int64_t, DYNAMIX_INTRODUCTION_COLUMNS> row{};
    EXPECT_NE(dynamix_introduce(alone.get(), &made, row.data()), DYNAMIX_OK);
    return std::string(dynamix_error(alone.get()));
  };
  EXPECT_THAT(problem_of(4'194'304, 0), HasSubstr("a batch size of up to 4194304 is above the most, 1048576"));
  EXPECT_THAT(problem_of(8, 4), HasSubstr("the batch size 8 is not within 1 to 4"));
}

TEST(Library, TrainsAProgramInC) {
  EXPECT_EQ(dynamix_c99_trains(100), 100U);
}

TEST(Library, ExportsTheFunctionsOfItsHeaderAndNothingElse) {
  std::unique_ptr<FILE, int (*)(FILE*)> names(popen("nm -D --defined-only " DYNAMIX_LIBRARY, "r"), pclose);
  ASSERT_TRUE(names);
  int functions = 0;
  char line[512];
  while (fgets(line, sizeof line, names.get()) != nullptr) {
    EXPECT_THAT(line, HasSubstr(" T dynamix_"));
    ++functions;
  }
  EXPECT_EQ(functions, 39);
}

TEST(Agent, IsReachedThroughAPathThatIsTooLongForAnAddress) {
  const temporary_directory directory;
  const auto deep = directory.path() + "/" + std::string(120, 'd');
  std::filesystem::create_directories(deep);
  scripted_agent agent(deep + "/0.sock");
  auto opening = std::async(std::launch::async, [&] { return open_run(deep + "/0.sock"); });
  ASSERT_TRUE(agent.accept());
  agent.send(welcome_example());
  EXPECT_TRUE(opening.get().run);
}

TEST(Agent, RefusesWithAReasonAndAdvice) {
  const temporary_directory directory;
  const auto path = directory.path() + "/0.sock";
  EXPECT_THAT(open_run(path).error, HasSubstr("is it running"));
  scripted_agent agent(path);
  EXPECT_THAT(open_run(path, 0, 1, 50).error, HasSubstr("has not answered within 50 ms"));
  ASSERT_TRUE(agent.accept()); // that one
  const std::vector<std::pair<messages::client_verdict, std::string>> verdicts = {
      {messages::client_verdict::slot_taken, "another process trains for this worker already"},
      {messages::client_verdict::protocol_mismatch, "of another release"},
      {messages::client_verdict::not_served, "takes no training process"}};
  for (const auto& [verdict, text] : verdicts) {
    auto opening = std::async(std::launch::async, [&] { return open_run(path); });
    ASSERT_TRUE(agent.accept());
    agent.send(messages::client_welcome{.verdict = verdict, .detail = "process 4711"});
    agent.hang_up();
    const auto opened = opening.get();
    EXPECT_FALSE(opened.run);
    EXPECT_THAT(opened.error, testing::AllOf(HasSubstr(text), HasSubstr("process 4711")));
  }
}

TEST(Agent, SaysThatTrainingBeginsSmallWhereTheLearningRateIsRightThere) {
  const temporary_directory directory;
  const auto path = directory.path() + "/0.sock";
  for (const auto rule : {DYNAMIX_RULE_LINEAR, DYNAMIX_RULE_SQUARE_ROOT, DYNAMIX_RULE_ADASCALE}) {
    scripted_agent agent(path);
    auto opening = std::async(std::launch::async, [&] { return open_run(path); });
    ASSERT_TRUE(agent.accept());
    auto welcome = welcome_example();
    welcome.workers = 1;
    welcome.start_divisor = 4;
    agent.send(welcome);
    std::vector<run_pointer> runs;
    runs.push_back(opening.get().run);
    ASSERT_TRUE(runs[0]);
    auto made = workload();
    made.batch = 40;
    made.rule = static_cast<std::uint32_t>(rule);
    training alone(std::move(runs));
    alone.begin({made});
    alone.start_epoch();
    EXPECT_EQ(alone.status().global_batch, rule == DYNAMIX_RULE_LINEAR ? 40U : 10U);
    EXPECT_TRUE(alone.step());
  }
}

TEST(Agent, IsNamedByTheEnvironment) {
  const temporary_directory directory;
  char path[256];
  unsetenv("DYNAMIX_AGENT");
  EXPECT_EQ(dynamix_agent_path(1, path, sizeof path), 0U);
  setenv("DYNAMIX_AGENT", directory.path().c_str(), 1);
  dynamix_agent_path(1, path, sizeof path);
  EXPECT_EQ(path, directory.path() + "/1.sock");
  setenv("DYNAMIX_AGENT", "some.sock", 1);
  EXPECT_EQ(dynamix_agent_path(1, path, sizeof path), 9U);
  EXPECT_STREQ(path, "some.sock");
  unsetenv("DYNAMIX_AGENT");
}

} // namespace
} // namespace dynamix::client
