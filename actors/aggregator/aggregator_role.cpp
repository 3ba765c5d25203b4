#include "actors/aggregator/aggregator_role.hpp"

#include "messages/validation.hpp"
#include "storage/json_text.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

template <class Part>
void aggregator_role::take_part(Part part) {
  if (!windows_)
    return;
  if (part.generation == windows_->generation() && windows_->is_too_far(part.window))
    return spdlog::warn("report_refused error=\"window {} is too far ahead\"", part.window);
  const auto before = windows_->open_window();
  pass_on_gathered(windows_->add(std::move(part), links_.now_seconds()), before);
}

void aggregator_role::pass_on_gathered(const std::vector<closed_window>& closed, std::uint64_t before) {
  evaluations_.closed(closed.size());
  pass_on(closed);
  const auto open = windows_->open_window();
  if (open != 0 && open != before)
    links_.await_deadline(windows_->generation(), open, 1 + levels_below());
}

void aggregator_role::take_report(messages::window_report report) {
  take_part(std::move(report));
}

void aggregator_role::take_window(const messages::shard_window& window) {
  take_part<const messages::shard_window&>(window);
}

/// The window waits no longer for what is still out. The next generation may train the same one again.
void aggregator_role::end_gathering(std::uint64_t generation, std::uint64_t window) {
  if (!windows_ || windows_->generation() != generation)
    return;
  const auto closed = windows_->deadline(window, links_.now_seconds());
  evaluations_.closed(closed.size());
  pass_on(closed);
}

void aggregator_role::hear_evaluation(messages::evaluation_report evaluation, const evaluation_sender& from) {
  if (from.rank)
    evaluation.host = from.host;
  auto [refusal, first] = evaluations_.judge(from, evaluation.step);
  if (refusal.empty())
    return take_evaluation(evaluation);
  if (first)
    spdlog::warn("evaluations_refused host={} error={} those that follow in this generation are only counted",
                 from.host, storage::quoted(refusal));
}

void aggregator_role::take_placement(const std::vector<std::uint32_t>& workers, const messages::placement& placement) {
  place(workers, placement);
}

void aggregator_role::take_order(const messages::shard_order&) {}

void aggregator_role::settle(std::uint64_t, bool) {}

void aggregator_role::take_command(const std::string&, std::function<void(std::string)>) {}

void aggregator_role::lost_parent(const char*) {}

void aggregator_role::stop() {
  links_.stop_all();
}

void aggregator_role::take_notice(const std::vector<std::uint32_t>& workers,
                                  const messages::generation_notice& notice) {
  for (const auto& [way, some] : split(workers))
    links_.notify(way, some, notice);
}

void aggregator_role::place(const std::vector<std::uint32_t>& workers, const messages::placement& placement) {
  const auto first = placement.members.empty() ? 0 : placement.members.front();
  if (const auto refused = evaluations_.formed(placement.generation, first); refused > 0)
    spdlog::warn("evaluations_refused count={} in the generation before {}", refused, placement.generation);
  for (const auto& [way, some] : split(workers))
    links_.place(way, some, placement);
}

void aggregator_role::order(const std::string& host, messages::shard_order order) {
  order.term = term_;
  order.reason = messages::fit_text(order.reason);
  links_.order(host, order);
}

/// To each child what is known of its workers.
void aggregator_role::guide(messages::guidance known) {
  std::map<route, std::vector<messages::worker_guidance>> parts;
  for (const auto& one : std::exchange(known.workers, {}))
    if (const auto found = routes_.find(one.rank); found != routes_.end())
      parts[found->second].push_back(one);
  for (const auto& [host, _] : children_) {
    known.workers = std::move(parts[host]);
    links_.guide(host, known);
  }
}

std::map<route, std::vector<std::uint32_t>> aggregator_role::split(const std::vector<std::uint32_t>& workers) const {
  std::map<route, std::vector<std::uint32_t>> parts;
  for (const auto rank : workers)
    if (const auto found = routes_.find(rank); found != routes_.end())
      parts[found->second].push_back(rank);
  return parts;
}

std::optional<messages::welcome> aggregator_role::refuse_address(const messages::hello& hello, const route& way,
                                                                 const worker_names* names) {
  if (!way.empty() || hello.address.empty() || hello.training || names == nullptr)
    return std::nullopt;
  auto why = names->why_elsewhere(cluster::host_of(hello.host), hello.address);
  if (why.empty())
    return std::nullopt;
  return messages::welcome{
      .verdict = messages::welcome_verdict::cluster_mismatch, .detail = std::move(why), .leader = {}};
}

messages::welcome aggregator_role::judge_child(const messages::shard_hello& hello) const {
  messages::welcome answer;
  answer.protocol = messages::common_protocol(messages::protocols_of(hello));
  if (answer.protocol == 0) {
    answer.verdict = messages::welcome_verdict::protocol_mismatch;
    answer.detail = fmt::format("host {} speaks {}, this arbitrator {}", hello.host,
                                to_text(messages::protocols_of(hello)), to_text(messages::protocol_range{}));
  } else if (hello.cluster_digest != file_->digest() ||
             hello.heartbeat_interval_ms != timeouts_.heartbeat_interval_ms) {
    answer.verdict = messages::welcome_verdict::cluster_mismatch;
    answer.detail = fmt::format("host {} read another version of the cluster file", hello.host);
  }
  return answer;
}

void aggregator_role::adopt_child(const std::string& host) {
  children_[host] = {.seen_seconds = links_.now_seconds()};
  spdlog::info("shard_attached host={}", host);
}

void aggregator_role::end_reports(const messages::farewell& farewell, bool below) {
  if (!windows_)
    return;
  if (!farewell.succeeded)
    pass_on(windows_->left(farewell.rank, links_.now_seconds()));
  else if (!below)
    pass_on(windows_->finished(farewell.rank, links_.now_seconds()));
}

void aggregator_role::follow_progress(const messages::heartbeat& sign) {
  if (!windows_ || sign.generation != windows_->generation())
    return;
  const auto before = windows_->open_window();
  pass_on_gathered(windows_->reached(sign.rank, window_after(sign.steps), links_.now_seconds()), before);
}

} // namespace dynamix::actors
