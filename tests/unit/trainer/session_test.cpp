#include "file_store.hpp"
#include "temporary_directory.hpp"
#include "tiny_images.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::trainer {
namespace {

class quiet_observer : public observer {
public:
  void started() override {}
  void window_closed(const window_record& record) override { windows = record.window; }
  void evaluated(const messages::evaluation_report&) override {}
  void checkpoint_written(const std::string&, std::uint64_t) override {}
  bool stop_requested() override { return false; }

  std::uint64_t windows = 0;
};

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

class session : public testing::Test {
protected:
  session() {
    write_images(data, "train", 400);
    write_images(data, "t10k", 50);
    file.training.data_path = data.path();
    file.training.epochs = 1;
    file.training.device = "cpu";
    file.batch.initial = 5;
    file.batch.lowest = 1;
    file.arbitrator.window_steps = 3;
    self.name = "host";
  }

  outcome train_as(std::uint32_t rank, std::uint32_t world_size, observer& watcher,
                   const std::string& resume_from = "") {
    file_store meeting(rendezvous.path());
    steady_clock time;
    decision_slot decisions(1, rank, 1, 1024);
    auto host = self;
    host.name += std::to_string(rank);
    const session_options options{
        .file = &file, .host = &host, .checkpoint_directory = checkpoints.path(), .resume_from = resume_from};
    const membership place{.rank = rank,
                           .world_size = world_size,
                           .store_prefix = "g" + std::to_string(generation),
                           .collective_timeout_ms = collective_timeout_ms,
                           .join_timeout_ms = 20000};
    return train(options, place, meeting, time, decisions, watcher);
  }

  /// Runs every rank in a process of its own, and gives back what each of them wrote about its end.
  std::vector<std::string> train_processes(std::uint32_t world_size, std::uint32_t dying_rank,
                                           const std::string& resume_from = "") {
    ++generation;
    std::vector<pid_t> children;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto child = ::fork();
      if (child == 0) {
        ::alarm(60); // a rank that hangs ends as a failure
        dying_observer dying(signal);
        quiet_observer living;
        const auto end = train_as(rank, world_size, rank == dying_rank ? dying : living, resume_from);
        std::ofstream(report_path(rank)) << end.succeeded << ' ' << end.steps << ' ' << end.parameter_checksum << ' '
                                         << end.reason;
        ::_exit(0);
      }
      children.push_back(child);
    }
    std::vector<std::string> reports(world_size, "killed");
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      if (rank == dying_rank)
        continue;
      ::waitpid(children[rank], nullptr, 0);
      std::ifstream written(report_path(rank));
      std::getline(written, reports[rank]);
    }
    if (dying_rank < world_size) {
      int status = 0;
      ::kill(children[dying_rank], SIGKILL); // in case it only fell silent
      ::waitpid(children[dying_rank], &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "the rank lived to its end";
    }
    return reports;
  }

  std::string report_path(std::uint32_t rank) const {
    return rendezvous.file("report-" + std::to_string(generation) + "-" + std::to_string(rank));
  }

  temporary_directory data;
  temporary_directory rendezvous;
  temporary_directory checkpoints;
  cluster::cluster_file file;
  cluster::host self;
  std::uint32_t generation = 0;
  std::uint32_t collective_timeout_ms = 20000;
  int signal = SIGKILL; ///< that ends the dying rank
};

// The tests that fork come first: Torch must not have started a thread in this process.

TEST_F(session, returns_with_a_checkpoint_that_resumes_when_a_peer_is_killed_in_mid_step) {
  file.training.epochs = 5;
  const auto reports = train_processes(4, 2);
  std::string resume_from;
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    SCOPED_TRACE(reports[rank]);
    std::istringstream fields(reports[rank]);
    int succeeded = -1;
    std::uint64_t step = 0;
    fields >> succeeded >> step;
    EXPECT_EQ(succeeded, 0);
    EXPECT_GE(step, 12U);
    EXPECT_LT(step, 100U);
    EXPECT_THAT(reports[rank],
                testing::HasSubstr("lost contact with a worker during step " + std::to_string(step) + ": "));
    auto path = checkpoint_path(checkpoints.path(), step);
    path.insert(path.rfind('.'), "-host" + std::to_string(rank));
    EXPECT_THAT(reports[rank], testing::EndsWith("; checkpoint " + path + " written"));
    checkpoint state;
    EXPECT_EQ(read_checkpoint(path, state), "");
    EXPECT_EQ(state.step, step);
    EXPECT_EQ(state.samples, step * 4 * 5);
    resume_from = path;
  }
  const auto resumed = train_processes(4, 4, resume_from);
  for (const auto& report : resumed) {
    EXPECT_THAT(report, testing::StartsWith("1 100 "));
    EXPECT_EQ(report, resumed[0]); // the checksum too
  }
  EXPECT_EQ(train_processes(4, 4), resumed) << "the interrupted run ends elsewhere than one without interruption";
}

TEST_F(session, returns_after_the_collective_time_out_when_a_peer_falls_silent) {
  file.training.epochs = 5;
  collective_timeout_ms = 700;
  signal = SIGSTOP;
  const auto reports = train_processes(3, 1);
  for (const std::uint32_t rank : {0U, 2U}) {
    EXPECT_THAT(reports[rank], testing::StartsWith("0 "));
    EXPECT_THAT(reports[rank], testing::HasSubstr("lost contact with a worker during step "));
    EXPECT_THAT(reports[rank], testing::HasSubstr("checkpoint "));
  }
}

TEST_F(session, says_on_every_rank_that_the_checkpoint_cannot_be_used) {
  const auto garbage = checkpoints.write("garbage", "this is no checkpoint");
  for (const auto& report : train_processes(2, 2, garbage))
    EXPECT_THAT(report, testing::HasSubstr(garbage + " cannot be resumed from: "));
  const auto absent = train_processes(2, 2, checkpoints.file("absent"));
  EXPECT_THAT(absent[0], testing::HasSubstr("absent"));
  EXPECT_THAT(absent[1], testing::HasSubstr("rank 0 cannot read the checkpoint"));
}

TEST_F(session, trains_alone_and_leaves_its_last_checkpoint) {
  quiet_observer watcher;
  const auto end = train_as(0, 1, watcher);
  EXPECT_TRUE(end.succeeded) << end.reason;
  EXPECT_EQ(end.samples, 400U);
  EXPECT_EQ(watcher.windows, 27U);
  EXPECT_EQ(newest_checkpoint(checkpoints.path()).path, end.checkpoint);
}

TEST_F(session, preflight_says_what_is_wrong_with_the_data) {
  EXPECT_EQ(preflight(file.training).message, "");
  std::filesystem::remove(data.file("t10k-labels-idx1-ubyte"));
  EXPECT_THAT(preflight(file.training).message, testing::HasSubstr("t10k-labels-idx1-ubyte"));
  EXPECT_EQ(preflight(file.training).field, "training.data_path");
  quiet_observer watcher;
  const auto end = train_as(0, 1, watcher);
  EXPECT_FALSE(end.succeeded);
  EXPECT_THAT(end.reason, testing::HasSubstr("t10k-labels-idx1-ubyte"));
}

} // namespace
} // namespace dynamix::trainer
