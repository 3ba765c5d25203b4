#pragma once

#include "replication/replica.hpp"
#include "tests/temporary_directory.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dynamix::replication {

/// What one voter's journal holds, as its process tells it.
struct told_state {
  std::uint64_t position = 0, digest = 0, term = 0, last_window = 0, windows_decided = 0, duplicated = 0, damaged = 0,
                policy_version = 0, policy_bytes = 0;
};

struct told_result {
  std::string status; ///< "committed", "not-leader", "unknown", "refused"
  verdict outcome = verdict::damaged;
  bool repeated = false;
};

/// A process of replica_node. Its lines are read by `replica_cluster::pump`.
struct voter_process {
  pid_t id = -1;
  int input = -1;
  int output = -1;
  std::string partial; ///< line
  std::string role = "stopped";
  std::uint64_t raft_term = 0;
  std::uint64_t leader = 0;
  std::optional<told_state> state;
  std::optional<std::pair<std::string, told_state>> read;
  std::map<std::pair<std::uint64_t, std::uint64_t>, told_result> done; ///< by client and sequence
  std::vector<std::string> reports;
  bool running() const { return id > 0; }
};

/// Voters on loopback, each a process with a directory below a temporary one. Voters count from 1. Everything that
/// waits gives up after 60 s. Fails the test as soon as two voters lead in one term of Raft.
class replica_cluster {
public:
  replica_cluster(std::size_t voters, std::uint32_t detect_ms, std::uint32_t snapshot_entries = 64);
  replica_cluster(const replica_cluster&) = delete;
  ~replica_cluster();

  std::size_t size() const { return voters_.size() - 1; }
  voter_process& operator[](std::size_t voter) { return voters_[voter]; }
  std::string directory(std::size_t voter) const;

  void start(std::size_t voter);
  void start_all();
  void kill(std::size_t voter); ///< SIGKILL; waits for the end
  void signal(std::size_t voter, int number);
  /// Ends its input and waits; its exit code, or -1.
  int stop(std::size_t voter);
  void send(std::size_t voter, const std::string& line);

  /// Takes in what the voters say, for at most so long.
  void pump(int milliseconds);
  bool wait(const std::function<bool()>& condition, std::chrono::milliseconds bound = std::chrono::seconds(60));
  /// The running voter that leads in the highest term, once there is one; 0 if none comes.
  std::size_t wait_for_leader();
  std::size_t leader_now() const;
  /// All running voters follow one that runs.
  bool wait_for_calm();

  /// Proposes until it is committed, to whoever leads, always with the same key. The words behind the key in `rest`.
  /// `sent` is called with the leader behind the first time.
  told_result settle(const std::string& verb, std::uint64_t client, std::uint64_t sequence, const std::string& rest,
                     std::function<void(std::size_t)> sent = {});
  /// Begins term 1 and generation 1 as client 1.
  void begin();
  /// Decides the next window as client 1 and counts it.
  void decide(std::function<void(std::size_t)> sent = {});
  std::uint64_t windows() const { return windows_; }
  std::uint64_t next_sequence() { return ++sequence_; }

  /// Asks all running voters for their journals until each holds all windows that were acknowledged and all are equal.
  /// Empty, or what is missing.
  std::string check_all_equal();
  std::uint64_t repeats() const { return repeats_; }

private:
  void take(std::size_t voter, const std::string& line);
  void end(std::size_t voter);

  std::uint32_t detect_ms_;
  std::uint32_t snapshot_entries_;
  temporary_directory root_;
  std::vector<std::string> ports_;
  std::vector<voter_process> voters_;            ///< the first is nobody
  std::map<std::uint64_t, std::size_t> leaders_; ///< by term of Raft
  std::uint64_t windows_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t repeats_ = 0; ///< proposals that had been applied before
};

} // namespace dynamix::replication
