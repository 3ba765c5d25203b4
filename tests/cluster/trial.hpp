#pragma once

/// A cluster of real dynamix-node processes on this machine: its directory, its ports, its file and its processes.

#include "ledger/file.hpp"
#include "node/launch/child_process.hpp"
#include "node/launch/run_directory.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dynamix::cluster_test {

/// How long a test waits for anything: far above what an idle machine needs, so that a loaded one passes too.
constexpr std::chrono::seconds patience{180};

/// Looks every 20 ms. False when it has not come true within `patience`.
bool wait_until(const std::function<bool()>& come_true);

/// The file's contents; empty when there is none.
std::string contents_of(const std::string& path);
/// Every file below `directory` with its contents, but locks.
std::map<std::string, std::string> files_below(const std::string& directory);

/// A directory with the first 6,000 training and 1,000 test images of Fashion-MNIST; made at the first call.
const std::string& small_dataset();

struct ended_program {
  int code = -1; ///< 128 + n for signal n; -1 when it had to be killed
  std::string output;
};

/// One dynamix-node process.
class program {
public:
  program(const std::vector<std::string>& arguments, const std::string& output,
          const std::string& path = DYNAMIX_NODE_PROGRAM);

  /// What it has said so far.
  std::string said() const { return contents_of(output_); }
  bool says(const std::string& text) const;
  bool running() { return process_.running(); }
  void signal(int number) { process_.signal(number); }
  int process_id() const { return process_.id(); }
  /// Sends a signal to the process that `local` started for this host, once there is one. False if there is none.
  bool signal_host(const std::string& host, int number);
  /// Waits for its end; kills it after `patience`, which fails the test.
  ended_program wait();

private:
  node::child_process process_;
  std::string output_;
};

/// The cluster of a test: the arbitrator "hub" and the workers "w0", "w1", ... with these compute slow-downs.
struct trial_options {
  std::vector<double> slowdowns = {1, 1};
  std::string dataset = small_dataset();
  double epochs = 1;
  std::string more = {};       ///< TOML behind the hosts: further sections
  std::string training = {};   ///< further lines of [training]
  std::size_t replicas = 1;    ///< of the arbitrator: "hub", and "hub2", "hub3" where there are 3; 0: workers alone
  std::string page = {};       ///< dashboard.listen; empty: none, for many clusters run at once
  std::string arbitrator = {}; ///< further lines of [arbitrator]
  std::uint32_t window_steps = 2;
  std::string cluster = {}; ///< further lines of [cluster]
  std::size_t servers = 0;  ///< "s0", "s1", ... that only sum gradients
};

/// For runs that nothing disturbs: nobody is taken for late or dead because the machine is busy.
inline const std::string patient_cluster = "detect_ms = 5000\n";

class trial : public ::testing::Test {
protected:
  /// Writes the cluster file, on ports that are free.
  void write_file(const trial_options& options);
  /// Changes the written file's text.
  void replace_in_file(const std::string& text, const std::string& by);

  std::string file() const { return directory_.path() + "/cluster.toml"; }
  node::run_directory run() const { return node::run_directory(directory_.path() + "/run"); }
  std::uint16_t port(std::size_t host) const { return ports_.at(host); }

  /// `dynamix-node` with any arguments; `path`: that of another release.
  program start(const std::vector<std::string>& arguments, const std::string& path = DYNAMIX_NODE_PROGRAM) const;
  ended_program end_of(const std::vector<std::string>& arguments) const { return start(arguments).wait(); }
  /// `dynamix-node local` into `run()`.
  program start_local() const { return start({"local", "--cluster", file(), "--out", run().path()}); }
  /// `dynamix-node run` of one host into `run()`.
  program start_host(const std::string& host, const std::string& where = "--out",
                     const std::string& path = DYNAMIX_NODE_PROGRAM) const {
    return start({"run", "--cluster", file(), "--name", host, where, run().path(), "--log-to-stderr"}, path);
  }

  /// The entries of one kind in the ledger so far.
  template <class Entry>
  std::vector<Entry> rows() const {
    std::string not_yet;
    std::vector<Entry> found;
    for (auto& row : ledger::read_file(run().ledger(), not_yet))
      if (auto* entry = std::get_if<Entry>(&row.entry))
        found.push_back(std::move(*entry));
    return found;
  }
  /// The windows in the ledger so far.
  std::vector<ledger::window> windows() const;
  /// Waits until so many are there.
  bool wait_for_windows(std::size_t count) const;
  /// The generations in the ledger so far.
  std::vector<ledger::generation> generations() const;
  /// Waits until a generation of these hosts, above that number, has been formed and has reported a window. It may be
  /// over by now: one that a restart follows is as short as the restart is fast.
  bool wait_for_generation(const std::vector<std::string>& members, std::uint64_t above = 0) const;
  /// A worker's file; fails the test when there is none.
  messages::farewell farewell_of(const std::string& host) const;

  /// Training came to its end with every sample dealt once an epoch, and all who ended it have the same parameters.
  void expect_whole_training(const std::vector<std::string>& workers, std::uint64_t samples) const;

  const temporary_directory directory_;

private:
  std::vector<std::uint16_t> ports_;
  mutable int outputs_ = 0;
};

} // namespace dynamix::cluster_test
