#include "actors/arbitrator/leadership.hpp"

#include "actors/handlers.hpp"
#include "actors/network/connector.hpp"
#include "actors/network/control_network.hpp"
#include "actors/packing.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <random>

namespace dynamix::actors {

namespace {

/// What the voter's thread tells, until the watch takes it.
struct voter_news {
  std::mutex mutex;
  replication::observation now;
  std::shared_ptr<const replication::journal_state> read; ///< of the term below
  std::uint64_t read_term = 0;
};

struct watch_state {
  static constexpr const char* name = "leadership";
  leadership_options options;
  std::shared_ptr<replication::replica> voter;
  std::shared_ptr<voter_news> news;
  std::uint64_t asked_term = 0;   ///< of Raft, in which the journal was asked for last
  std::uint64_t leading_term = 0; ///< in which this host leads; 0: it does not
  std::optional<std::uint64_t> told_leader;
};

using leadership_pointer = caf::stateful_actor<watch_state>*;

std::string host_of(const cluster::cluster_file& file, std::uint64_t voter) {
  return voter == 0 || voter > file.hosts.size() ? "" : file.hosts[voter - 1].name;
}

std::uint64_t new_client() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32 | source()) | 1;
}

/// Everything that was committed before is read first; until it is here nobody decides.
void ask(leadership_pointer self, std::uint64_t term) {
  auto& state = self->state;
  state.asked_term = term;
  state.voter->read([news = state.news, term, watch = caf::actor{self}](const replication::read_result& result) {
    {
      const std::scoped_lock lock(news->mutex);
      news->read = result.status == replication::proposal_status::committed ? result.state : nullptr;
      news->read_term = term;
    }
    caf::anon_send(watch, atom::look_v);
  });
}

void lead(leadership_pointer self, std::uint64_t term, std::shared_ptr<const replication::journal_state> journal) {
  auto& state = self->state;
  state.leading_term = term;
  state.told_leader.reset();
  spdlog::info("leading raft_term={} last_term={} last_window={}", term, journal->term, journal->last_window);
  state.options.lead({.journal = std::make_shared<replicated_journal>(state.voter, new_client()),
                      .state = journal,
                      .raft_term = term});
}

void follow(leadership_pointer self, std::uint64_t leader) {
  auto& state = self->state;
  if (state.leading_term != 0)
    spdlog::warn("not_leading_any_more raft_term={}", state.leading_term);
  state.leading_term = 0;
  if (state.told_leader == leader)
    return;
  state.told_leader = leader;
  state.options.follow(host_of(*state.options.file, leader));
}

void look(leadership_pointer self) {
  auto& state = self->state;
  std::unique_lock lock(state.news->mutex);
  const auto now = state.news->now;
  const auto read = state.news->read;
  const auto read_term = state.news->read_term;
  lock.unlock();
  if (now.now != replication::role::leader)
    return follow(self, now.leader);
  if (state.leading_term == now.raft_term)
    return;
  if (read && read_term == now.raft_term)
    return lead(self, now.raft_term, read);
  follow(self, 0);
  if (state.asked_term != now.raft_term || (read_term == now.raft_term && !read))
    ask(self, now.raft_term);
}

caf::behavior watch(leadership_pointer self, leadership_options options, std::shared_ptr<replication::replica> voter,
                    std::shared_ptr<voter_news> news) {
  install_handlers(self, watch_state::name);
  self->state.options = std::move(options);
  self->state.voter = std::move(voter);
  self->state.news = std::move(news);
  return {[self](atom::look) { look(self); }};
}

/// Runs detached, since connecting blocks.
caf::behavior messenger(caf::event_based_actor* self, connector_target to, std::shared_ptr<control_network> network,
                        message<messages::farewell> said, std::chrono::milliseconds patience, caf::actor done) {
  std::string ignored;
  const auto reached = network->reach(to, static_cast<std::uint32_t>(patience.count()), ignored);
  if (!reached) {
    self->send(done, atom::finish_v);
    return {};
  }
  // The host that it speaks to knows it from then on, so it does not end by itself.
  auto end = [self, done] {
    self->send(done, atom::finish_v);
    self->quit();
  };
  self->request(reached, patience, atom::finish_v, said)
      .then([end](atom::finish) { end(); }, [end](const caf::error&) { end(); });
  return {[](atom::stop) {}};
}

} // namespace

void leadership::tell_end(caf::actor_system& system, const std::shared_ptr<control_network>& network,
                          const cluster::cluster_file& file, const messages::farewell& said,
                          std::chrono::milliseconds patience) {
  caf::scoped_actor self(system);
  std::size_t open = 0;
  for (const auto* host : file.arbitrators()) {
    if (host->name == said.host)
      continue;
    system.spawn<caf::detached>(messenger, connector_target{host->name, host->address, host->port}, network, pack(said),
                                patience, caf::actor_cast<caf::actor>(self));
    ++open;
  }
  for (; open > 0; --open)
    self->receive([](atom::finish) {}, caf::after(patience) >> [] {});
}

std::uint64_t leadership::voter_of(const cluster::cluster_file& file, const std::string& host) {
  return static_cast<std::uint64_t>(file.find(host) - file.hosts.data()) + 1;
}

std::string leadership::start(caf::actor_system& system, leadership_options options) {
  const auto& file = *options.file;
  replication::replica_options wanted{.id = voter_of(file, options.host),
                                      .voters = {},
                                      .directory = options.directory,
                                      .links = options.links,
                                      .detect_ms = file.detect_ms};
  links_ = options.links;
  for (const auto* host : file.arbitrators())
    wanted.voters.push_back({.id = voter_of(file, host->name),
                             .address = fmt::format("{}:{}", host->address, host->port),
                             .host = host->name});
  voter_ = std::make_shared<replication::replica>();
  auto news = std::make_shared<voter_news>();
  watch_ = system.spawn(watch, std::move(options), voter_, news);
  wanted.observe = [news, handle = watch_](const replication::observation& now) {
    {
      const std::scoped_lock lock(news->mutex);
      news->now = now;
    }
    spdlog::info("voter role={} raft_term={} leader={}", replication::to_string(now.now), now.raft_term, now.leader);
    caf::anon_send(handle, atom::look_v);
  };
  wanted.report = [](const std::string& text) { spdlog::warn("voter {}", text); };
  return voter_->start(std::move(wanted));
}

void leadership::stop(std::uint32_t bound_ms) {
  if (!voter_)
    return;
  if (!voter_->stop(bound_ms))
    spdlog::warn("voter_still_running after {} ms; left to the process's end", bound_ms);
  if (links_)
    links_->end();
  caf::scoped_actor self(watch_->home_system());
  self->send_exit(watch_, caf::exit_reason::user_shutdown);
  self->wait_for(watch_);
  watch_ = nullptr;
}

} // namespace dynamix::actors
