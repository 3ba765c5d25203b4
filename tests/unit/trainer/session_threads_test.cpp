#include "session_fixture.hpp"
#include "tests/unit/exchange/stores.hpp"
#include "tests/wait_until.hpp"
#include "trainer/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <thread>
#include <unistd.h>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

/// Workers as threads of this process.
class SessionThreads : public session_fixture {
protected:
  outcome train_alone(observer& watcher) {
    set_workers(1);
    session training(options_of(0), time);
    decision_slot decisions(0, 1, 1024);
    exchange::interruption never;
    return training.train(place_of(0, {0}), meeting, decisions, watcher, never);
  }

  static std::size_t entries_of(const char* directory) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
  }
  static std::size_t descriptors() { return entries_of("/proc/self/fd"); }
  static std::size_t threads() { return entries_of("/proc/self/task"); }
  static std::uint64_t resident_bytes() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  exchange::memory_store meeting;
  steady_clock time;
};

TEST_F(SessionThreads, TrainAloneAndLeaveTheirLastCheckpoint) {
  quiet_observer watcher;
  const auto end = train_alone(watcher);
  EXPECT_EQ(end.how, ending::completed) << end.reason;
  EXPECT_EQ(end.samples, 400U);
  EXPECT_EQ(end.attempted_steps, end.steps);
  EXPECT_EQ(watcher.windows, 27U);
  EXPECT_EQ(watcher.steps, 80U);
  EXPECT_EQ(newest_checkpoint(checkpoints.path()).path, end.checkpoint);
}

/// Notes who sums, and what compressing came to.
class counting_observer final : public quiet_observer {
public:
  void exchange_planned(const exchange::summing_plan& given) override { plan = given; }
  void compressed(const exchange::compression_counts& given) override { counts = given; }
  exchange::summing_plan plan;
  exchange::compression_counts counts;
};

TEST_F(SessionThreads, SumAndCompressAsTheFileSaysWithoutChangingAParameterOfTwoWorkers) {
  set_workers(2);
  file.training.model = cluster::model_kind::ncf;
  file.training.dataset = cluster::dataset_kind::interactions;
  file.training.interactions_scale = 0.01;
  file.training.epochs = 0.02;                                 // 4,000 samples
  file.arbitrator.policy = cluster::policy_kind::static_batch; // nobody decides
  file.batch.initial = 100;
  std::vector<std::uint64_t> checksums;
  using enum cluster::compression_kind;
  using cluster::exchange_kind;
  for (const auto& [kind, exchange] :
       {std::pair(none, exchange_kind::ring), std::pair(union_of_items, exchange_kind::ring),
        std::pair(gather, exchange_kind::ring), std::pair(lhc, exchange_kind::ring),
        std::pair(none, exchange_kind::parameter_server), std::pair(union_of_items, exchange_kind::parameter_server),
        std::pair(gather, exchange_kind::parameter_server), std::pair(lhc, exchange_kind::parameter_server),
        std::pair(none, exchange_kind::automatic), std::pair(automatic, exchange_kind::automatic)}) {
    file.training.compression = kind;
    file.training.exchange = exchange;
    ++generation;
    outcome ends[2];
    counting_observer watchers[2];
    {
      std::vector<std::jthread> workers;
      for (std::uint32_t rank = 0; rank < 2; ++rank)
        workers.emplace_back([&, rank] {
          session training(options_of(rank), time);
          decision_slot decisions(rank, 1, 1024);
          exchange::interruption never;
          ends[rank] = training.train(place_of(rank, {0, 1}), meeting, decisions, watchers[rank], never);
        });
    }
    EXPECT_EQ(ends[0].how, ending::completed) << ends[0].reason;
    EXPECT_EQ(ends[0].parameter_checksum, ends[1].parameter_checksum);
    checksums.push_back(ends[0].parameter_checksum);
    EXPECT_EQ(watchers[0].counts.sums, kind == none ? 0 : ends[0].steps);
    if (kind != automatic) { // which may have tried them
      EXPECT_EQ(watchers[0].counts.sketched > 0, kind == lhc);
    }
    EXPECT_EQ(watchers[1].plan.link_rates.size(), exchange == exchange_kind::ring ? 0U : 2U);
    EXPECT_EQ(watchers[1].plan.by_servers, exchange == exchange_kind::parameter_server)
        << "two workers have nothing to gain from servers";
  }
  EXPECT_THAT(checksums, testing::Each(checksums[0]));
}

TEST_F(SessionThreads, TrainThroughAHostThatOnlyServes) {
  set_workers(2);
  file.training.exchange = cluster::exchange_kind::parameter_server;
  file.hosts.push_back({.name = "serves", .roles = {cluster::role::server}});
  outcome ends[3];
  counting_observer watchers[3];
  {
    std::vector<std::jthread> members;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      members.emplace_back([&, rank] {
        session training(options_of(rank), time);
        decision_slot decisions(rank, 1, 1024);
        exchange::interruption never;
        auto place = place_of(rank, {0, 1});
        place.servers = {2};
        ends[rank] = training.train(place, meeting, decisions, watchers[rank], never);
        if (rank == 2) {
          EXPECT_EQ(training.steps(), 0U);
          EXPECT_THAT(training.save().problem, HasSubstr("no state"));
        }
      });
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ends[rank].how, ending::completed) << ends[rank].reason;
    EXPECT_EQ(watchers[rank].plan.servers.shares.size(), 3U);
  }
  EXPECT_EQ(ends[0].parameter_checksum, ends[1].parameter_checksum);
  EXPECT_EQ(ends[0].samples, 400U);
  EXPECT_EQ(ends[2].steps, 0U);
}

TEST_F(SessionThreads, SayWhatIsWrongWithTheData) {
  EXPECT_EQ(preflight(file).message, "");
  std::filesystem::remove(data.file("t10k-labels-idx1-ubyte"));
  EXPECT_THAT(preflight(file).message, HasSubstr("t10k-labels-idx1-ubyte"));
  EXPECT_EQ(preflight(file).field, "training.data_path");
  quiet_observer watcher;
  const auto end = train_alone(watcher);
  EXPECT_EQ(end.how, ending::failed);
  EXPECT_THAT(end.reason, HasSubstr("t10k-labels-idx1-ubyte"));
}

TEST_F(SessionThreads, RefuseAPlaceThatMakesNoSense) {
  session training(options_of(1), time);
  decision_slot decisions(1, 1, 1024);
  quiet_observer watcher;
  exchange::interruption never;
  for (const auto& members : std::vector<std::vector<std::uint32_t>>{{0, 2}, {2, 1}, {1, 1}, {1, 4}}) {
    const auto end = training.train(place_of(1, members), meeting, decisions, watcher, never);
    EXPECT_EQ(end.how, ending::failed);
    EXPECT_THAT(end.reason, HasSubstr("generation 1"));
  }
}

TEST_F(SessionThreads, LeaveAtOnceWhenInterruptedBeforeTheyBeginAndMayBePlacedAgain) {
  session training(options_of(0), time);
  decision_slot decisions(0, 1, 1024);
  quiet_observer watcher;
  exchange::interruption stop;
  stop.raise("too late");
  const auto end = training.train(place_of(0, {0, 1}), meeting, decisions, watcher, stop);
  EXPECT_EQ(end.how, ending::lost);
  EXPECT_EQ(end.reason, "too late");
  EXPECT_EQ(training.steps(), 0U);
  EXPECT_EQ(training.save().path, "");
  EXPECT_EQ(training.save().problem, "there is no state to write");
  exchange::interruption never;
  generation = 2;
  EXPECT_EQ(training.train(place_of(0, {0}), meeting, decisions, watcher, never).how, ending::completed);
  EXPECT_EQ(training.steps(), 20U);
  EXPECT_NE(training.save().path, "");
}

/// Interrupts both members of a generation after so many steps of its own; one alone then still waits for the other.
class interrupting_observer final : public quiet_observer {
public:
  interrupting_observer(exchange::interruption& own, exchange::interruption& peers) : own_(own), peers_(peers) {}
  void step_completed(std::uint64_t) override {
    if (++steps != 4)
      return;
    own_.raise("the generation is over");
    peers_.raise("the generation is over");
  }

private:
  exchange::interruption& own_;
  exchange::interruption& peers_;
};

TEST_F(SessionThreads, LeakNothingOverManyInterruptedGenerations) {
  ::mallopt(M_ARENA_MAX, 2); // one a thread would grow for long
  file.training.epochs = 100;
  set_workers(2);
  session first(options_of(0), time);
  session second(options_of(1), time);
  decision_slot first_slot(0, 1, 1024);
  decision_slot second_slot(1, 1, 1024);
  const auto train_a_generation = [&] {
    exchange::interruption first_stop;
    exchange::interruption second_stop;
    std::jthread other([&] {
      quiet_observer watcher;
      const auto end = second.train(place_of(1, {0, 1}), meeting, second_slot, watcher, second_stop);
      EXPECT_EQ(end.how, ending::lost) << end.reason;
    });
    interrupting_observer watcher(first_stop, second_stop);
    const auto end = first.train(place_of(0, {0, 1}), meeting, first_slot, watcher, first_stop);
    EXPECT_EQ(end.how, ending::lost) << end.reason;
    other.join();
    ++generation;
  };
  for (int warm_up = 0; warm_up < 5; ++warm_up)
    train_a_generation();
  EXPECT_TRUE(wait_until([] { return threads() <= 8; })) << threads() << " threads are left";
  const auto threads_before = threads();
  const auto descriptors_before = descriptors();
  ::malloc_trim(0);
  const auto bytes_before = resident_bytes();
  for (int repetition = 0; repetition < 40; ++repetition)
    train_a_generation();
  EXPECT_EQ(first.steps(), 45U * 4);
  EXPECT_TRUE(wait_until([&] { return threads() <= threads_before; })) << threads() << " of " << threads_before;
  EXPECT_TRUE(wait_until([&] { return descriptors() <= descriptors_before; }))
      << descriptors() << " of " << descriptors_before;
  // A copy of the state a generation and session would be 28 MB.
  ::malloc_trim(0);
  EXPECT_LT(resident_bytes(), bytes_before + (std::uint64_t{16} << 20U));
}

} // namespace
} // namespace dynamix::trainer
