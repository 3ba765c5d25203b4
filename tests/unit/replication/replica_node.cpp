// One voter as a process of its own, for replica_test: commands come in as lines, and what happens goes out as lines.
//
//     replica_node ID DIRECTORY DETECT_MS SNAPSHOT_ENTRIES KEYS PORT...    the voters 1, 2, ... at these ports of
//                                                                          loopback, with the keys of hosts 1, 2, ...
//
// It ends when its input does.

#include "links/door.hpp"
#include "links/key_directory.hpp"
#include "replication/frame_check.hpp"
#include "replication/replica.hpp"
#include "tests/unit/replication/journal_examples.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/prctl.h>

namespace {

using namespace dynamix::replication;

/// Whole lines, from any thread.
void say(const std::string& line) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream line;
  ((line << parts << ' '), ...);
  return line.str();
}

std::string no_blanks(std::string_view text) {
  std::string word(text);
  for (auto& character : word)
    character = character == ' ' ? '-' : character;
  return word;
}

std::string describe(const journal_state& state) {
  return join(state.position, state.digest, state.term, state.last_window, state.counts.windows_decided,
              state.counts.duplicated, state.counts.damaged, state.policy ? state.policy->version : 0,
              state.policy ? state.policy->parameters.size() : 0);
}

bool parse(std::istringstream& line, const std::string& verb, journal_entry& entry) {
  proposal_key key;
  std::uint64_t term = 0;
  std::uint64_t number = 0;
  line >> key.client >> key.sequence >> term;
  if (verb == "begin")
    entry = begin_term(key, term);
  else if (verb == "form" && line >> number)
    entry = form_generation(key, term, number);
  else if (verb == "decide" && line >> number)
    entry = decide_window(key, term, number);
  else if (std::size_t bytes = 0; verb == "publish" && line >> number >> bytes)
    entry = publish_policy(key, term, number, bytes, bytes);
  else
    return false;
  return true;
}

void obey(replica& voter, const std::string& text) {
  std::istringstream line(text);
  std::string verb;
  line >> verb;
  journal_entry entry;
  if (verb == "state")
    voter.read_local([](const read_result& result) {
      if (result.state)
        say("state " + describe(*result.state));
    });
  else if (verb == "read")
    voter.read([](const read_result& result) {
      say("read " + no_blanks(to_string(result.status)) + " " + (result.state ? describe(*result.state) : ""));
    });
  else if (parse(line, verb, entry))
    voter.propose(entry, [key = entry.key](const proposal_result& result) {
      say(join("done", key.client, key.sequence, no_blanks(to_string(result.status)),
               static_cast<int>(result.outcome.result), result.outcome.repeated, result.leader));
    });
  else
    say("report not understood: " + text);
}

/// As a replica's host has them (actors/host/host_links.cpp). Returns an empty string, or why there are none.
std::string open_links(replica_options& options, const std::string& keys, std::unique_ptr<dynamix::links::door>& door) {
  using namespace dynamix::links;
  const auto say_line = [](const std::string& line) { say("report " + line); };
  const auto& own = options.voters.at(options.id - 1);
  pump_options wanted{.directory = host_directory(keys, own.host), .host = own.host};
  for (const auto& one : options.voters)
    wanted.accepted.insert(one.host);
  wanted.protocol = raft_protocol;
  wanted.inspect = inspect_frames;
  wanted.silent_peer_ms = time_outs_of(options.detect_ms).silent_peer_ms;
  wanted.report = say_line;
  std::string problem;
  door = door::start({.directory = wanted.directory, .host = own.host, .report = say_line}, problem);
  options.links = pump::start(std::move(wanted), problem);
  if (!door || !options.links)
    return problem;
  door->lead_to(options.links);
  const auto port = own.address.substr(own.address.rfind(':') + 1);
  return door->listen("127.0.0.1", static_cast<std::uint16_t>(std::stoul(port)));
}

} // namespace

int main(int count, char** words) {
  constexpr int first_port = 6;
  if (count <= first_port)
    return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGXFSZ, SIG_IGN); // the tests shrink the file size limit
  replica_options options;
  options.id = std::strtoull(words[1], nullptr, 10);
  options.directory = words[2];
  options.detect_ms = static_cast<std::uint32_t>(std::strtoul(words[3], nullptr, 10));
  options.snapshot_entries = static_cast<std::uint32_t>(std::strtoul(words[4], nullptr, 10));
  for (int index = first_port; index < count; ++index) {
    const auto id = static_cast<std::uint64_t>(index - first_port + 1);
    options.voters.push_back({id, std::string("127.0.0.1:") + words[index], std::to_string(id)});
  }
  options.observe = [](const observation& seen) {
    say(join("role", to_string(seen.now), seen.raft_term, seen.leader));
  };
  options.report = [](const std::string& text) { say("report " + text); };
  std::unique_ptr<dynamix::links::door> door;
  replica voter;
  auto error = open_links(options, words[first_port - 1], door);
  if (error.empty())
    error = voter.start(options);
  if (!error.empty()) {
    say("failed " + error);
    return 1;
  }
  say("started");
  for (std::string line; std::getline(std::cin, line);)
    obey(voter, line);
  return voter.stop(60'000) ? 0 : 3;
}
