#pragma once

/// Aggregators without actors, with links that take notes.

#include "actors/aggregator/root_role.hpp"
#include "actors/aggregator/shard_role.hpp"
#include "cluster/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors::testing {

using ranks = std::vector<std::uint32_t>;

/// Notes what an aggregator does to others; parents answer when the test lets them.
class noted_links final : public aggregator_links {
public:
  double now_seconds() const override { return now; }
  void place(const route& way, const ranks& workers, const messages::placement& place) override {
    note("place {} of {} through \"{}\"", fmt::join(workers, ","), place.generation, way);
  }
  void notify(const route& way, const ranks& workers, const messages::generation_notice& notice) override {
    note("notify {} of {} through \"{}\"", fmt::join(workers, ","), notice.generation, way);
  }
  void decide(const messages::decision& made) override { note("decide {}", made.rank); }
  void guide(const std::string& child, const messages::guidance& known) override {
    note("guide {} for {} workers", child, known.workers.size());
  }
  void order(const std::string& child, const messages::shard_order& given) override {
    note("order {} leaving {} finished {}", child, fmt::join(given.leaving, ","), given.finished);
  }
  void stop_all() override { note("stop all"); }
  void stop(std::uint32_t worker) override { note("stop {}", worker); }
  void dismiss_waiting(const messages::generation_notice& notice) override { dismissed.push_back(notice.reason); }
  void disconnect(std::uint32_t worker) override { note("disconnect {}", worker); }

  bool has_arbitrator() const override { return arbitrator; }
  void decide_on(const messages::shard_report& window) override {
    note("decide on {} with {} reports", window.window, window.reports.size());
  }
  void judge(const messages::shard_window& window) override {
    note("judge {} with {} reports", window.window, window.reports.size());
  }
  void raise_term(std::uint64_t term) override { note("term {}", term); }
  void enter(const messages::placement& place) override { note("enter {}", place.generation); }
  void lose(std::uint32_t worker) override { note("lose {}", worker); }
  void finish_arbitrator(std::function<void()> done) override { done(); }

  void look_soon() override { note("look soon"); }
  void await_deadline(std::uint64_t generation, std::uint64_t window, std::uint32_t timeouts) override {
    note("deadline {} of {}{}", window, generation, timeouts > 1 ? fmt::format(" in {} time-outs", timeouts) : "");
  }
  void open_store(std::size_t meeting) override { note("store for {}", meeting); }
  std::function<void(std::uint64_t token, bool kept)> settled() override { return on_settled; }

  bool has_parent() const override { return parent; }
  void attach(const messages::shard_hello&, std::function<void(const attach_answer&)> answered) override {
    note("attach");
    attaching = std::move(answered);
  }
  void attach_later(double) override { note("attach later"); }
  void detach() override { parent = false; }
  void try_parent(const std::string& host) override { note("{}", host.empty() ? "next parent" : "parent at " + host); }
  void relay(const messages::hello& hello, std::function<void(std::optional<messages::welcome>)> answered) override {
    note("relay hello of {}", hello.host);
    hellos.push_back(std::move(answered));
  }
  void relay(const messages::farewell& said, std::function<void(bool taken)> answered) override {
    note("relay farewell of {}", said.rank);
    answered(true);
  }
  void report_absent(const messages::absence& gone) override { note("absent {}", gone.rank); }
  void report(const messages::evaluation_report&) override { note("evaluation"); }
  void report(const messages::beat_summary& summary, std::function<void()> failed) override {
    note("beats of {}", summary.beats.size());
    unanswered = std::move(failed);
  }
  void report(const messages::shard_window& window) override { note("send up {}", window.window); }
  void begin_anew() override { note("begin anew"); }

  template <class... Content>
  void note(fmt::format_string<Content...> text, Content&&... content) {
    notes.push_back(fmt::format(text, std::forward<Content>(content)...));
  }
  /// What was noted since the last call.
  std::vector<std::string> take() { return std::exchange(notes, {}); }

  double now = 1000;
  bool arbitrator = true;
  bool parent = false;
  std::vector<std::string> notes;
  std::vector<std::string> dismissed; ///< the reasons
  std::function<void(const attach_answer&)> attaching;
  std::vector<std::function<void(std::optional<messages::welcome>)>> hellos; ///< that wait for the parent
  std::function<void()> unanswered;
  std::function<void(std::uint64_t token, bool kept)> on_settled = [](std::uint64_t, bool) {};
};

class rows_in_memory final : public ledger::writer {
public:
  void append(const ledger::row& row) override { rows.push_back(row); }
  std::vector<ledger::row> rows;
};

inline cluster::cluster_file file_of(std::uint32_t workers) {
  cluster::cluster_file file;
  file.name = "test";
  file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    file.hosts.push_back({.name = fmt::format("w{}", rank), .port = static_cast<std::uint16_t>(rank + 2)});
  return file;
}

class AggregatorRole : public ::testing::Test {
protected:
  messages::hello hello_of(std::uint32_t rank) const {
    messages::hello said;
    said.cluster = file.name;
    said.cluster_digest = file.digest();
    said.host = fmt::format("w{}", rank);
    said.incarnation = rank + 1;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
    return said;
  }
  /// How the hello was answered.
  void say_hello(aggregator_role& aggregator, const messages::hello& said, const route& way = {}) {
    aggregator.take_hello(said, way,
                          {.connect = [this](std::uint32_t rank) { links.note("connect {}", rank); },
                           .keep_waiting = [this] { links.note("keep waiting"); },
                           .answer =
                               [this](const messages::welcome& welcome) {
                                 links.note("answer {}", welcome.verdict == messages::welcome_verdict::accepted
                                                             ? "accepted"
                                                             : welcome.detail);
                               },
                           .fail = [this] { links.note("fail"); }});
  }
  messages::window_report report_of(std::uint32_t rank, std::uint64_t window, std::uint64_t generation = 1) const {
    return {.host = fmt::format("w{}", rank), .rank = rank, .generation = generation, .window = window};
  }
  std::unique_ptr<root_role> make_root(root_options options = {}) {
    options.run_ledger = rows;
    options.events = events;
    return std::make_unique<root_role>(std::make_shared<const cluster::cluster_file>(file), timeouts,
                                       std::move(options), links);
  }

  cluster::cluster_file file = file_of(3);
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  noted_links links;
  std::shared_ptr<rows_in_memory> rows = std::make_shared<rows_in_memory>();
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
};

/// Of six workers in a tree, three below each shard.
class RoleInATree : public AggregatorRole {
protected:
  RoleInATree() {
    file = file_of(6);
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = 3;
    plan = cluster::plan_tree(file);
  }
  std::string home(std::uint32_t rank) const { return plan.nodes[plan.shard_of(rank)].host; }

  cluster::tree_plan plan;
  std::unique_ptr<root_role> root;
};

} // namespace dynamix::actors::testing
