#include "actors/network/guarded_broker.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::actors {
namespace {

namespace basp = caf::io::basp;

/// Room that a link is given before a byte has come.
constexpr std::size_t part_bytes = 65536;

} // namespace

void new_links::put(caf::io::connection_handle connection, link_peer peer) {
  const std::scoped_lock lock(mutex_);
  waiting_.insert_or_assign(connection, std::move(peer));
}

std::optional<link_peer> new_links::take(caf::io::connection_handle connection) {
  const std::scoped_lock lock(mutex_);
  auto found = waiting_.extract(connection);
  return found.empty() ? std::nullopt : std::optional(std::move(found.mapped()));
}

void guarded_broker::use(std::shared_ptr<const authority> rules, std::shared_ptr<new_links> links,
                         std::shared_ptr<refused_messages> refused) {
  if (rules)
    guard_.emplace(system(), std::move(rules), std::move(refused));
  links_ = std::move(links);
}

caf::behavior guarded_broker::make_behavior() {
  behind_ = basp_broker::make_behavior();
  const caf::message_handler guard{[this](caf::io::new_data_msg& frame) { take(frame); },
                                   [this](const caf::io::connection_closed_msg& closed) {
                                     held_.erase(closed.handle);
                                     if (guard_)
                                       guard_->remove(closed.handle);
                                     behind_(current_mailbox_element()->content());
                                   }};
  return guard.or_else(behind_);
}

void guarded_broker::learned_new_node_directly(const caf::node_id&, bool) {}

void guarded_broker::learned_new_node_indirectly(const caf::node_id&) {}

void guarded_broker::take(caf::io::new_data_msg& frame) {
  if (auto fresh = links_->take(frame.handle); fresh && guard_)
    guard_->add(frame.handle, std::move(*fresh));
  if (held_.contains(frame.handle))
    return take_part(frame.handle, frame.buf);
  const bool is_header = !awaits_payload(frame.handle);
  if (!judge(frame.handle, frame.buf))
    return;
  if (guard_ && is_header && guard_->claimed() > part_bytes) {
    set_context(frame.handle); // it lives
    held_[frame.handle] = {.header = frame.buf, .claimed = guard_->claimed(), .payload = {}};
    return await_part(frame.handle);
  }
  behind_(current_mailbox_element()->content());
}

void guarded_broker::await_part(caf::io::connection_handle connection) {
  const auto& frame = held_.at(connection);
  const auto bytes = std::min(part_bytes, frame.claimed - frame.payload.size());
  if (!guard_->hold(connection, bytes))
    return cut(connection);
  configure_read(connection, caf::io::receive_policy::exactly(bytes));
}

void guarded_broker::take_part(caf::io::connection_handle connection, const std::vector<char>& part) {
  auto& payload = held_.at(connection).payload;
  payload.insert(payload.end(), part.begin(), part.end());
  if (payload.size() < held_.at(connection).claimed)
    return await_part(connection);
  auto whole = std::move(held_.extract(connection).mapped());
  guard_->release(connection);
  pass_on(connection, std::move(whole.header));
  if (awaits_payload(connection) && judge(connection, whole.payload))
    pass_on(connection, std::move(whole.payload));
}

void guarded_broker::pass_on(caf::io::connection_handle connection, std::vector<char> frame) {
  auto content = caf::make_message(caf::io::new_data_msg{connection, std::move(frame)});
  behind_(content);
}

void guarded_broker::cut(caf::io::connection_handle connection) {
  held_.erase(connection);
  guard_->remove(connection);
  connection_cleanup(connection, caf::sec::runtime_error);
  close(connection);
}

bool guarded_broker::awaits_payload(caf::io::connection_handle connection) const {
  const auto known = ctx.find(connection);
  return known != ctx.end() && known->second.cstate == basp::await_payload;
}

bool guarded_broker::judge(caf::io::connection_handle connection, const std::vector<char>& frame) {
  if (!guard_)
    return true;
  using verdict = message_guard::verdict;
  const auto found = guard_->judge(connection, awaits_payload(connection) ? &ctx[connection].hdr : nullptr, frame);
  if (found == verdict::cut)
    cut(connection);
  if (found == verdict::drop) // CAF reads a sign of life in its place
    ctx[connection].hdr.operation = basp::message_type::heartbeat;
  return found != verdict::cut;
}

} // namespace dynamix::actors
