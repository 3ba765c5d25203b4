#include "tests/unit/replication/replica_cluster.hpp"

#include "links/key_directory.hpp"
#include "tests/unit/replication/raw_peer.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace dynamix::replication {
namespace {

using clock = std::chrono::steady_clock;

told_state parse_state(std::istringstream& line) {
  told_state told;
  line >> told.position >> told.digest >> told.term >> told.last_window >> told.windows_decided >> told.duplicated >>
      told.damaged >> told.policy_version >> told.policy_bytes;
  return told;
}

pid_t spawn(std::vector<std::string> words, int& input, int& output) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0)
    return -1;
  std::vector<char*> arguments;
  for (auto& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  pid_t id = -1;
  if (::posix_spawn(&id, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
    id = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input = in[1];
  output = out[0];
  return id;
}

/// Below the ports that the kernel gives to connections: one of those could take a dead voter's port.
std::unique_ptr<raw_listener> listen_somewhere() {
  std::random_device random;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    try {
      return std::make_unique<raw_listener>(static_cast<std::uint16_t>(20'000 + random() % 10'000));
    } catch (const std::runtime_error&) {
      continue; // taken
    }
  }
  throw std::runtime_error("no free port");
}

} // namespace

replica_cluster::replica_cluster(std::size_t voters, std::uint32_t detect_ms, std::uint32_t snapshot_entries)
    : detect_ms_(detect_ms), snapshot_entries_(snapshot_entries), voters_(voters + 1) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::unique_ptr<raw_listener>> held; // so that no two get the same port
  while (held.size() < voters) {
    held.push_back(listen_somewhere());
    ports_.push_back(std::to_string(held.back()->port()));
  }
  links::key_request keys{.cluster = "replicas", .hosts = {}, .now_seconds = std::time(nullptr)};
  for (std::size_t voter = 1; voter <= voters; ++voter)
    keys.hosts.push_back(std::to_string(voter));
  EXPECT_EQ(links::make_passing_keys(root_.file("keys"), keys), "");
}

replica_cluster::~replica_cluster() {
  for (std::size_t voter = 1; voter <= size(); ++voter)
    kill(voter);
}

std::string replica_cluster::directory(std::size_t voter) const {
  return root_.file(std::to_string(voter));
}

void replica_cluster::start(std::size_t voter) {
  auto& process = voters_[voter];
  process = {};
  std::vector<std::string> words = {DYNAMIX_REPLICA_NODE,
                                    std::to_string(voter),
                                    directory(voter),
                                    std::to_string(detect_ms_),
                                    std::to_string(snapshot_entries_),
                                    root_.file("keys")};
  words.insert(words.end(), ports_.begin(), ports_.end());
  process.id = spawn(std::move(words), process.input, process.output);
  ASSERT_GT(process.id, 0);
}

void replica_cluster::start_all() {
  for (std::size_t voter = 1; voter <= size(); ++voter)
    start(voter);
}

void replica_cluster::end(std::size_t voter) {
  auto& process = voters_[voter];
  process.id = -1;
  process.role = "stopped";
  ::close(process.input);
  ::close(process.output);
}

void replica_cluster::kill(std::size_t voter) {
  auto& process = voters_[voter];
  if (!process.running())
    return;
  ::kill(process.id, SIGKILL);
  ::waitpid(process.id, nullptr, 0);
  pump(0); // what it said before
  if (process.running())
    end(voter);
}

void replica_cluster::signal(std::size_t voter, int number) {
  ::kill(voters_[voter].id, number);
}

int replica_cluster::stop(std::size_t voter) {
  auto& process = voters_[voter];
  const auto id = process.id;
  ::close(process.input);
  process.input = -1;
  int status = 0;
  const bool ended = wait([&] { return ::waitpid(id, &status, WNOHANG) == id; });
  if (process.running())
    end(voter);
  return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void replica_cluster::send(std::size_t voter, const std::string& line) {
  const auto text = line + "\n";
  if (voters_[voter].running() && ::write(voters_[voter].input, text.data(), text.size()) < 0)
    return; // it has ended, which the next read tells
}

void replica_cluster::pump(int milliseconds) {
  std::vector<pollfd> waiting;
  std::vector<std::size_t> whose;
  for (std::size_t voter = 1; voter <= size(); ++voter)
    if (voters_[voter].running()) {
      waiting.push_back({.fd = voters_[voter].output, .events = POLLIN});
      whose.push_back(voter);
    }
  if (::poll(waiting.data(), waiting.size(), milliseconds) <= 0)
    return;
  for (std::size_t index = 0; index < waiting.size(); ++index) {
    if (waiting[index].revents == 0)
      continue;
    auto& process = voters_[whose[index]];
    char bytes[65536];
    const auto got = ::read(process.output, bytes, sizeof bytes);
    if (got <= 0) { // the end of its output; whoever ends it collects it
      ::close(process.output);
      process.output = -1;
      process.role = "stopped";
      continue;
    }
    process.partial.append(bytes, static_cast<std::size_t>(got));
    for (auto end = process.partial.find('\n'); end != std::string::npos; end = process.partial.find('\n')) {
      take(whose[index], process.partial.substr(0, end));
      process.partial.erase(0, end + 1);
    }
  }
}

void replica_cluster::take(std::size_t voter, const std::string& text) {
  auto& process = voters_[voter];
  std::istringstream line(text);
  std::string kind;
  line >> kind;
  if (kind == "role") {
    line >> process.role >> process.raft_term >> process.leader;
    if (process.role != "leader")
      return;
    const auto known = leaders_.emplace(process.raft_term, voter).first->second;
    EXPECT_EQ(known, voter) << "two leaders in term " << process.raft_term;
  } else if (kind == "state") {
    process.state = parse_state(line);
  } else if (kind == "read") {
    std::string status;
    line >> status;
    process.read = {status, parse_state(line)};
  } else if (kind == "done") {
    std::pair<std::uint64_t, std::uint64_t> key;
    told_result result;
    int outcome = 0;
    line >> key.first >> key.second >> result.status >> outcome >> result.repeated;
    result.outcome = static_cast<verdict>(outcome);
    process.done[key] = result;
  } else {
    process.reports.push_back(text);
  }
}

bool replica_cluster::wait(const std::function<bool()>& condition, std::chrono::milliseconds bound) {
  const auto end = clock::now() + bound;
  while (!condition()) {
    if (clock::now() >= end)
      return false;
    pump(5);
  }
  return true;
}

std::size_t replica_cluster::leader_now() const {
  std::size_t leader = 0;
  for (std::size_t voter = 1; voter <= size(); ++voter)
    if (voters_[voter].role == "leader" && (leader == 0 || voters_[voter].raft_term > voters_[leader].raft_term))
      leader = voter;
  return leader;
}

std::size_t replica_cluster::wait_for_leader() {
  return wait([&] { return leader_now() != 0; }) ? leader_now() : 0;
}

bool replica_cluster::wait_for_calm() {
  const bool calm = wait([&] {
    const auto leader = leader_now();
    for (std::size_t voter = 1; voter <= size(); ++voter)
      if (voters_[voter].running() &&
          (leader == 0 || voters_[voter].leader != leader || voters_[voter].role == "joining"))
        return false;
    return true;
  });
  for (std::size_t voter = 1; voter <= size() && !calm; ++voter) {
    const auto& process = voters_[voter];
    ADD_FAILURE() << "voter " << voter << ": " << process.role << ", term " << process.raft_term << ", follows "
                  << process.leader << ", " << testing::PrintToString(process.reports);
  }
  return calm;
}

told_result replica_cluster::settle(const std::string& verb, std::uint64_t client, std::uint64_t sequence,
                                    const std::string& rest, std::function<void(std::size_t)> sent) {
  constexpr auto answer_bound = std::chrono::seconds(10);
  const std::pair key(client, sequence);
  const auto line = verb + " " + std::to_string(client) + " " + std::to_string(sequence) + " " + rest;
  const auto end = clock::now() + std::chrono::seconds(60);
  while (clock::now() < end) {
    const auto leader = wait_for_leader();
    if (leader == 0)
      break;
    auto& process = voters_[leader];
    process.done.erase(key);
    send(leader, line);
    if (sent)
      std::exchange(sent, nullptr)(leader);
    wait([&] { return process.done.contains(key) || process.role == "stopped"; }, answer_bound);
    const auto answer = process.done.find(key);
    if (answer != process.done.end() && answer->second.status == "committed") {
      repeats_ += answer->second.repeated ? 1 : 0;
      return answer->second;
    }
    pump(5); // whoever answered "not leader" is about to say so too
  }
  ADD_FAILURE() << line << " was not committed";
  return {};
}

void replica_cluster::begin() {
  EXPECT_EQ(settle("begin", 1, next_sequence(), "1").outcome, verdict::applied);
  EXPECT_EQ(settle("form", 1, next_sequence(), "1 1").outcome, verdict::applied);
}

void replica_cluster::decide(std::function<void(std::size_t)> sent) {
  ++windows_;
  EXPECT_EQ(settle("decide", 1, next_sequence(), "1 " + std::to_string(windows_), std::move(sent)).outcome,
            verdict::applied);
}

std::string replica_cluster::check_all_equal() {
  std::string missing;
  const auto equal = [&] {
    missing.clear();
    const told_state* first = nullptr;
    for (std::size_t voter = 1; voter <= size(); ++voter) {
      if (!voters_[voter].running())
        continue;
      voters_[voter].state.reset();
      send(voter, "state");
      if (!wait([&] { return voters_[voter].state.has_value(); }, std::chrono::seconds(10)))
        return missing = "voter " + std::to_string(voter) + " does not answer", false;
      const auto& told = *voters_[voter].state;
      // Windows rise one by one, so as many as the last one's number means that each is there, once.
      if (told.last_window != windows_ || told.windows_decided != windows_ || told.damaged != 0)
        missing = "voter " + std::to_string(voter) + " holds " + std::to_string(told.windows_decided) +
                  " windows up to " + std::to_string(told.last_window) + " of " + std::to_string(windows_);
      first = first == nullptr ? &told : first;
      if (told.position != first->position || told.digest != first->digest)
        missing += "; voter " + std::to_string(voter) + " differs";
    }
    return missing.empty();
  };
  wait(equal);
  return missing;
}

} // namespace dynamix::replication
