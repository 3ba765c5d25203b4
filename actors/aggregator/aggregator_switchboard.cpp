#include "actors/aggregator/aggregator_switchboard.hpp"

#include "actors/network/gateway.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors {

void aggregator_switchboard::place(const route& way, const std::vector<std::uint32_t>& workers,
                                   const messages::placement& placement) {
  pass_down(way, workers, atom::place_v, pack(placement), store);
}

void aggregator_switchboard::notify(const route& way, const std::vector<std::uint32_t>& workers,
                                    const messages::generation_notice& notice) {
  pass_down(way, workers, atom::closed_v, pack(notice));
}

void aggregator_switchboard::guide(const std::string& child, const messages::guidance& known) {
  to_child(child, atom::guide_v, pack(known));
}

void aggregator_switchboard::order(const std::string& child, const messages::shard_order& order) {
  to_child(child, atom::order_v, pack(order));
}

void aggregator_switchboard::stop_all() {
  for (const auto& [rank, worker] : workers_)
    self_->send(worker, atom::stop_v);
  for (const auto& [host, child] : children)
    self_->send(child, atom::stop_v);
}

void aggregator_switchboard::stop(std::uint32_t worker) {
  if (const auto found = workers_.find(worker); found != workers_.end())
    self_->send(found->second, atom::stop_v);
}

void aggregator_switchboard::dismiss_waiting(const messages::generation_notice& notice) {
  for (const auto& one : std::exchange(waiting_, {})) {
    self_->demonitor(one.address());
    self_->send(one, atom::closed_v, pack(notice));
  }
}

void aggregator_switchboard::keep_waiting(const worker_actor& caller) {
  if (waiting_.size() >= waiting_most || std::ranges::find(waiting_, caller) != waiting_.end())
    return;
  waiting_.push_back(caller);
  self_->monitor(caller);
}

void aggregator_switchboard::forget_waiting(const caf::actor_addr& address) {
  if (std::erase_if(waiting_, [&](const auto& one) { return one.address() == address; }) > 0)
    self_->demonitor(address);
}

bool aggregator_switchboard::is_worker(std::uint32_t rank, const caf::actor_addr& address) const {
  const auto found = workers_.find(rank);
  return found != workers_.end() && found->second.address() == address;
}

void aggregator_switchboard::disconnect(std::uint32_t worker) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    self_->demonitor(found->second.address());
    workers_.erase(found);
  }
}

void aggregator_switchboard::finish_arbitrator(std::function<void()> done) {
  const std::chrono::milliseconds patience(timeouts_.shutdown_timeout_ms);
  self_->request(arbitrator, patience, atom::finish_v)
      .then([done](atom::finish) { done(); }, [done](const caf::error&) { done(); });
}

void aggregator_switchboard::await_deadline(std::uint64_t generation, std::uint64_t window, std::uint32_t timeouts) {
  self_->delayed_send(self_, timeouts * std::chrono::milliseconds(timeouts_.gather_timeout_ms), atom::deadline_v,
                      generation, window);
}

void aggregator_switchboard::open_store(std::size_t meeting) {
  end_store(store_before_);
  store_before_ = std::exchange(store, self_->system().spawn(actors::store, meeting));
}

std::function<void(std::uint64_t token, bool kept)> aggregator_switchboard::settled() {
  return [handle = aggregator_local{self_}](std::uint64_t token, bool kept) {
    caf::anon_send(handle, atom::kept_v, token, kept);
  };
}

void aggregator_switchboard::end_stores() {
  if (!at_root)
    return;
  end_store(store);
  end_store(store_before_);
}

void aggregator_switchboard::attach(const messages::shard_hello& hello,
                                    std::function<void(const attach_answer&)> answered) {
  self_->request(gateway, patience(), atom::attach_v, pack(hello), child_actor{aggregator_local{self_}})
      .then(
          [this, answered](const message<messages::welcome>& answer, const parent_actor& found) {
            const auto* welcome = unpack(answer, aggregator_state::name);
            if (welcome && welcome->verdict == messages::welcome_verdict::accepted && found) {
              parent = found;
              windows_up_.reset();
              self_->monitor(found);
              return answered({welcome->term, {}});
            }
            const bool follows = welcome && welcome->verdict == messages::welcome_verdict::not_leader;
            if (welcome && !follows)
              spdlog::warn("attach_refused detail={}", storage::quoted(welcome->detail));
            answered({std::nullopt, follows ? welcome->leader : std::string{}});
          },
          [answered](const caf::error&) { answered({}); });
}

void aggregator_switchboard::detach() {
  self_->demonitor(parent.address());
  parent = nullptr;
}

void aggregator_switchboard::relay(const messages::hello& hello,
                                   std::function<void(std::optional<messages::welcome>)> answered) {
  self_->request(parent, patience(), atom::relay_v, pack(hello), child_actor{aggregator_local{self_}})
      .then(
          [answered](const message<messages::welcome>& answer) {
            const auto* welcome = unpack(answer, aggregator_state::name);
            answered(welcome != nullptr ? std::optional(*welcome) : std::nullopt);
          },
          [answered](const caf::error&) { answered(std::nullopt); });
}

void aggregator_switchboard::relay(const messages::farewell& farewell, std::function<void(bool taken)> answered) {
  self_->request(parent, patience(), atom::farewell_v, pack(farewell))
      .then([answered](atom::farewell) { answered(true); }, [answered](const caf::error&) { answered(false); });
}

void aggregator_switchboard::report_absent(const messages::absence& gone) {
  if (parent)
    self_->send(parent, atom::absent_v, pack(gone));
}

void aggregator_switchboard::report(const messages::evaluation_report& evaluation) {
  if (parent)
    self_->send(parent, atom::evaluation_v, pack(evaluation));
}

void aggregator_switchboard::report(const messages::beat_summary& beats, std::function<void()> unanswered) {
  const std::chrono::milliseconds silence(timeouts_.silence_ms);
  self_->request(parent, silence, atom::beats_v, pack(beats))
      .then([](atom::beats) {},
            [this, unanswered, asked = parent](const caf::error&) {
              if (parent == asked)
                unanswered();
            });
}

void aggregator_switchboard::send_up(message<messages::shard_window> window) {
  if (!parent)
    return;
  if (auto now = windows_up_.offer(std::move(window)))
    send_up_now(std::move(*now));
}

void aggregator_switchboard::connect(std::uint32_t rank, const worker_actor& caller, const std::string& host) {
  forget_waiting(caller.address());
  hosts_[rank] = host;
  auto& known = workers_[rank];
  if (known == caller)
    return;
  if (known)
    self_->demonitor(known.address());
  known = caller;
  self_->monitor(caller);
}

void aggregator_switchboard::decide(std::uint32_t rank, const message<messages::decision>& decision) {
  if (const auto found = workers_.find(rank); found != workers_.end())
    self_->send(found->second, atom::decide_v, decision);
}

void aggregator_switchboard::adopt(const std::string& host, const child_actor& child) {
  children[host] = child;
  self_->monitor(child);
  if (policy)
    self_->send(child, atom::policy_v, *policy);
}

void aggregator_switchboard::publish(const message<messages::policy_version>& version) {
  policy = version;
  for (const auto& [host, child] : children)
    self_->send(child, atom::policy_v, version);
}

evaluation_sender aggregator_switchboard::find_sender(const caf::actor_addr& address) const {
  const auto rank = find_worker(address);
  return rank ? evaluation_sender{hosts_.at(*rank), rank} : evaluation_sender{find_child(address), std::nullopt};
}

std::optional<std::uint32_t> aggregator_switchboard::find_worker(const caf::actor_addr& address) const {
  const auto found = std::ranges::find(workers_, address, [](const auto& entry) { return entry.second.address(); });
  return found == workers_.end() ? std::nullopt : std::optional(found->first);
}

std::string aggregator_switchboard::find_child(const caf::actor_addr& address) const {
  const auto found = std::ranges::find(children, address, [](const auto& entry) { return entry.second.address(); });
  return found == children.end() ? std::string{} : found->first;
}

void aggregator_switchboard::end_store(const store_actor& one) {
  if (one)
    self_->send_exit(one, caf::exit_reason::user_shutdown);
}

void aggregator_switchboard::send_up_now(message<messages::shard_window> window) {
  const auto answered = [this, asked = parent] {
    if (parent != asked)
      return;
    if (auto next = windows_up_.answered(1))
      send_up_now(std::move(*next));
  };
  self_->request(parent, patience(), atom::window_v, std::move(window))
      .then([answered](atom::window) { answered(); }, [answered](const caf::error&) { answered(); });
}

} // namespace dynamix::actors
