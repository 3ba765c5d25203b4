#include "session_fixture.hpp"
#include "tests/unit/exchange/stores.hpp"
#include "trainer/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

/// A worker that dies (SIGKILL) or falls silent (SIGSTOP) without a word in the middle of a step.
class dying_observer final : public quiet_observer {
public:
  explicit dying_observer(int signal) : signal_(signal) {}
  void window_closed(const window_record& record) override {
    if (record.window != 4)
      return;
    std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ::kill(::getpid(), signal_);
    }).detach();
  }

private:
  int signal_;
};

/// What a process wrote about one generation.
struct report {
  int how = -1;
  std::uint64_t steps = 0;
  std::uint64_t attempted_steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t checksum = 0;
  double seconds_to_leave = 0; ///< from the interruption to the end of `train`
  std::string reason;

  bool is(ending wanted) const { return how == static_cast<int>(wanted); }
};

/// Workers as processes. Torch must not have started a thread in this one, which forks them: no test may train here.
class SessionTest : public session_fixture {
protected:
  /// The life of a worker's process: a generation with everybody, and after a loss another one with those who say that
  /// they are there. `dying` falls in the first.
  void live(std::uint32_t rank, std::uint32_t world_size, std::uint32_t dying, const std::string& resume_from) {
    exchange::file_store meeting(rendezvous.path());
    steady_clock time;
    session training(options_of(rank, resume_from), time);
    decision_slot decisions(rank, 1, 1024);
    std::vector<std::uint32_t> members(world_size);
    std::iota(members.begin(), members.end(), 0U);
    dying_observer falls(signal);
    quiet_observer lives;
    auto end = run(training, place_of(rank, members), meeting, decisions, rank == dying ? falls : lives);
    if (end.how == ending::lost && goes_on) {
      ++generation;
      std::erase(members, dying);
      auto place = place_of(rank, members);
      place.source = newest_of(meeting, training, place);
      end = run(training, place, meeting, decisions, lives);
    }
    if (end.succeeded() || goes_on)
      return;
    const auto saved = training.save();
    std::ofstream(report_path(rank)) << saved.path << saved.problem;
  }

  outcome run(session& training, const membership& place, exchange::store& meeting, decision_slot& decisions,
              observer& watcher) {
    exchange::interruption stop;
    double raised_at = 0;
    const steady_clock time;
    std::jthread interrupting([&](const std::stop_token& ended) {
      while (!ended.stop_requested() && !std::filesystem::exists(notice_path()))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      raised_at = time.now_seconds();
      if (!ended.stop_requested())
        stop.raise("a member fell silent");
    });
    const auto end = training.train(place, meeting, decisions, watcher, stop);
    const auto left_at = time.now_seconds();
    interrupting.request_stop();
    interrupting.join();
    std::ofstream(report_path(place.rank))
        << static_cast<int>(end.how) << ' ' << end.steps << ' ' << end.attempted_steps << ' ' << end.samples << ' '
        << end.parameter_checksum << ' ' << left_at - raised_at << ' ' << end.reason;
    return end;
  }

  /// As the members of the next generation would be told: who has most steps in memory.
  static std::uint32_t newest_of(exchange::store& meeting, const session& training, const membership& place) {
    const auto key = [&](std::uint32_t rank) { return place.store_prefix + "/steps/" + std::to_string(rank); };
    const auto text = std::to_string(training.steps());
    meeting.set(key(place.rank), {text.begin(), text.end()});
    std::uint32_t newest = place.members.front();
    std::uint64_t most = 0;
    for (const auto rank : place.members) {
      while (!meeting.check({key(rank)}))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto value = *meeting.get(key(rank));
      const auto steps = std::stoull(std::string(value.begin(), value.end()));
      if (steps > most)
        newest = rank;
      most = std::max<std::uint64_t>(most, steps);
    }
    return newest;
  }

  /// Runs every rank in a process of its own. `dying` is none of them when it is `world_size`.
  void train_processes(std::uint32_t world_size, std::uint32_t dying, const std::string& resume_from = "") {
    set_workers(world_size);
    generation = next_generation;
    next_generation += 2;
    std::vector<pid_t> children;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto child = ::fork();
      if (child == 0) {
        ::alarm(100); // a rank that hangs ends as a failure
        live(rank, world_size, dying, resume_from);
        ::_exit(0);
      }
      children.push_back(child);
    }
    if (dying < world_size && signal == SIGSTOP) {
      int status = 0;
      ::waitpid(children[dying], &status, WUNTRACED);
      EXPECT_TRUE(WIFSTOPPED(status));
      std::ofstream(notice_path()) << "now";
    }
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      if (rank == dying)
        continue;
      int status = 0;
      ::waitpid(children[rank], &status, 0);
      EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << " ended by signal " << WTERMSIG(status);
    }
    if (dying < world_size) {
      int status = 0;
      ::kill(children[dying], SIGKILL); // in case it only fell silent
      ::waitpid(children[dying], &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "the rank lived to its end";
    }
  }

  report report_of(std::uint32_t rank, std::uint64_t of_generation) {
    const auto now = generation;
    generation = of_generation;
    std::ifstream written(report_path(rank));
    generation = now;
    report read;
    written >> read.how >> read.steps >> read.attempted_steps >> read.samples >> read.checksum >> read.seconds_to_leave;
    std::getline(written >> std::ws, read.reason);
    return read;
  }

  std::string report_path(std::uint32_t rank) const {
    return rendezvous.file("report-" + std::to_string(generation) + "-" + std::to_string(rank));
  }
  std::string notice_path() const { return rendezvous.file("notice-" + std::to_string(generation)); }

  temporary_directory rendezvous;
  std::uint64_t next_generation = 1;
  int signal = SIGKILL; ///< that ends the dying rank
  bool goes_on = true;  ///< with a further generation after a loss
};

TEST_F(SessionTest, GoesOnWithoutAPeerThatWasKilledInMidStep) {
  file.training.epochs = 5;
  train_processes(3, 1);
  for (const std::uint32_t rank : {0U, 2U}) {
    const auto first = report_of(rank, 1);
    SCOPED_TRACE(first.reason);
    EXPECT_TRUE(first.is(ending::lost));
    EXPECT_GE(first.steps, 12U);
    EXPECT_LE(first.attempted_steps, first.steps + 1);
    EXPECT_EQ(first.samples, first.steps / 27 * 400 + std::min<std::uint64_t>(400, first.steps % 27 * 15));
    EXPECT_THAT(first.reason, HasSubstr("lost contact with a worker during step "));
    const auto second = report_of(rank, 2);
    EXPECT_TRUE(second.is(ending::completed)) << second.reason;
    EXPECT_EQ(second.samples, 2000U);
    EXPECT_EQ(second.steps, 5 * 27U) << "the global batch of 15 was not kept, or a step was counted twice";
    EXPECT_EQ(second.checksum, report_of(0, 2).checksum);
  }
}

TEST_F(SessionTest, LeavesAPeerThatFellSilentWhenItIsToldToAndGoesOn) {
  file.training.epochs = 5;
  signal = SIGSTOP; // the collective time-out is a minute
  train_processes(3, 0);
  int told = 0;
  for (const std::uint32_t rank : {1U, 2U}) {
    const auto first = report_of(rank, 1);
    EXPECT_TRUE(first.is(ending::lost));
    // Or the other survivor was told a moment earlier, and has gone.
    told += first.reason == "a member fell silent" ? 1 : 0;
    EXPECT_THAT(first.reason, testing::AnyOf("a member fell silent", testing::StartsWith("lost contact ")));
    EXPECT_LT(first.seconds_to_leave, 30) << "waited for the collective time-out";
    const auto second = report_of(rank, 2);
    EXPECT_TRUE(second.is(ending::completed)) << second.reason;
    EXPECT_EQ(second.samples, 2000U);
    EXPECT_EQ(second.checksum, report_of(1, 2).checksum);
  }
  EXPECT_GE(told, 1);
}

TEST_F(SessionTest, SavesACheckpointThatResumesWhereItDoesNotGoOn) {
  file.training.epochs = 5;
  goes_on = false;
  train_processes(4, 2);
  std::string resume_from;
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    std::ifstream written(report_path(rank));
    std::string path;
    written >> path;
    SCOPED_TRACE(path);
    EXPECT_THAT(path, testing::EndsWith("-host" + std::to_string(rank) + ".safetensors"));
    checkpoint state;
    ASSERT_EQ(read_checkpoint(path, state), "");
    EXPECT_GE(state.step, 12U);
    EXPECT_LT(state.step, 100U);
    EXPECT_EQ(state.samples, state.step * 4 * 5);
    resume_from = path;
  }
  train_processes(4, 4, resume_from);
  const auto resumed = generation;
  train_processes(4, 4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(report_of(rank, resumed).is(ending::completed)) << report_of(rank, resumed).reason;
    EXPECT_EQ(report_of(rank, resumed).steps, 100U);
    EXPECT_EQ(report_of(rank, resumed).checksum, report_of(0, generation).checksum)
        << "the interrupted run ends elsewhere than one without interruption";
  }
  train_processes(3, 3, resume_from);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(report_of(rank, generation).steps, 100U) << "another number of workers keeps the global batch";
    EXPECT_EQ(report_of(rank, generation).checksum, report_of(0, generation).checksum);
  }
}

TEST_F(SessionTest, SaysOnEveryRankThatTheCheckpointCannotBeUsed) {
  const auto garbage = checkpoints.write("garbage", "this is not a checkpoint");
  goes_on = false;
  train_processes(2, 2, garbage);
  for (const std::uint32_t rank : {0U, 1U}) {
    std::ifstream written(report_path(rank));
    std::string text;
    std::getline(written, text);
    EXPECT_EQ(text, "there is no state to write");
  }
  goes_on = true;
  train_processes(2, 2, garbage);
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_TRUE(report_of(rank, generation).is(ending::failed));
    EXPECT_THAT(report_of(rank, generation).reason, HasSubstr("the state of rank 0 cannot be resumed from: "));
  }
  EXPECT_THAT(report_of(0, generation).reason, HasSubstr(garbage));
  train_processes(2, 2, checkpoints.file("absent"));
  EXPECT_THAT(report_of(0, generation).reason, HasSubstr("absent"));
  EXPECT_THAT(report_of(1, generation).reason, HasSubstr("rank 0 cannot read the checkpoint"));
}

} // namespace
} // namespace dynamix::trainer
