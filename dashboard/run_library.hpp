#pragma once

/// The runs below one directory, for a page that lists them and compares some: GET /api/runs and /api/course. A thread
/// of its own reads their ledgers, one after the other, and goes on with those that grow. Nothing in a directory is
/// trusted: no symbolic link is followed, and what is no run is left out with a reason.

#include "dashboard/feed.hpp"
#include "ledger/run.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::dashboard {

struct library_limits {
  std::size_t entries = 4096;            ///< of the directory that are looked at
  std::size_t runs = 256;                ///< that are read and listed: those that were written last
  std::size_t left_out = 32;             ///< that are named
  std::size_t followed = 32;             ///< runs that go on and are read on where they grow
  std::uint64_t past_bytes = 256U << 20; ///< of each ledger; what lies before is passed over
  std::size_t line_bytes = 64U << 20;    ///< a longer line is passed over
  std::size_t open = 8;                  ///< runs whose own page is shown at once
  std::chrono::milliseconds look_interval{2000};
};

enum class run_state : std::uint8_t { unread, waiting, training, silent, ended, failed, broken };

/// One row of the list, as far as its ledger tells.
struct listed_run {
  std::string name; ///< of its directory
  std::string cluster;
  std::string policy;
  bool script = false; ///< users' own training processes train it
  std::size_t workers = 0;
  run_state state = run_state::unread;
  std::string said; ///< how it ended, what it waits for, or why it is broken
  std::string started_at;
  std::uint64_t windows = 0;
  double written_seconds = 0; ///< when its ledger, or its cluster file, was written last, in the system's clock
  // Of its newest window and evaluation; NaN while not known.
  double elapsed_seconds = 0;
  double samples = 0;
  double samples_per_second = 0;
  double test_accuracy = 0;
  double target_accuracy = 0;
  double seconds_to_target = 0; ///< of training, at the first evaluation that reached it
};

/// What a fold of a ledger comes to. `quiet`: how long nobody has written to it.
listed_run summarise(const std::string& name, const ledger::run& run, std::chrono::duration<double> quiet);

/// What is drawn of it: columns over time, and evaluations.
std::string course_json(const std::string& name, const ledger::run& run);

class run_library {
public:
  explicit run_library(std::string directory, library_limits limits = {});
  run_library(const run_library&) = delete;
  run_library& operator=(const run_library&) = delete;
  ~run_library();

  /// The answer of GET /api/runs.
  std::string list() const;
  /// The answer of GET /api/course?run=NAME; null where no such run is listed.
  std::shared_ptr<const std::string> course(const std::string& name) const;
  /// The run's own state; null where no such run is listed. Of the runs that are open the one that was asked for
  /// longest ago makes room.
  std::shared_ptr<feed> open(const std::string& name);
  void stop();

private:
  struct shelf;
  struct found_run;

  void follow();
  bool stopped() const;
  cluster::parse_result read_cluster(const std::string& name) const;
  std::vector<found_run> look();
  void read(const found_run& found);
  void publish(const std::string& name, shelf& kept, const found_run& found);
  std::size_t followed() const;

  const std::filesystem::path directory_;
  std::filesystem::path real_; ///< of the directory, without links; written by the thread under the lock
  const library_limits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  struct told_run {
    listed_run row;
    std::shared_ptr<const std::string> course;
  };
  std::map<std::string, told_run> told_;
  struct left_out {
    std::string name;
    std::string reason;
  };
  std::vector<left_out> left_out_;
  std::size_t left_out_more_ = 0; ///< that are not named
  std::size_t runs_more_ = 0;     ///< that are not listed
  std::string problem_;           ///< why the directory cannot be read
  struct opened {
    std::string name;
    std::shared_ptr<feed> from;
  };
  std::vector<opened> open_; ///< the one asked for last is the last
  bool stopped_ = false;

  // Of the thread alone.
  std::map<std::string, std::unique_ptr<shelf>> shelves_;
  std::thread thread_;
};

} // namespace dynamix::dashboard
