#include "replication/journal.hpp"

#include "replication/journal_codec.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::replication {
namespace {

verdict apply_content(journal_state& state, term_begun& value, std::uint64_t term) {
  state.term = term;
  state.leader = value.leader;
  ++state.counts.terms_begun;
  return verdict::applied;
}

verdict apply_content(journal_state& state, generation_formed& value, std::uint64_t) {
  if (value.generation <= state.generation.generation)
    return verdict::generation_passed;
  // Workers refuse a (term, window) that they have seen, so going back takes a new term.
  if (value.next_window <= state.last_window) {
    if (state.newest_key.term == state.term)
      return verdict::term_needed;
    state.last_window = value.next_window - 1;
  }
  state.generation = std::move(value);
  state.end = {};
  ++state.counts.generations_formed;
  return verdict::applied;
}

verdict apply_content(journal_state& state, window_decided& value, std::uint64_t term) {
  if (value.decisions.front().generation != state.generation.generation)
    return verdict::generation_passed;
  if (value.window <= state.last_window)
    return verdict::window_passed;
  state.last_window = value.window;
  state.newest_key = {term, value.window};
  state.decisions = std::move(value.decisions);
  ++state.counts.windows_decided;
  return verdict::applied;
}

verdict apply_content(journal_state& state, policy_published& value, std::uint64_t) {
  if (state.policy && value.policy.version <= state.policy->version)
    return verdict::policy_passed;
  state.policy = std::make_shared<messages::policy_version>(std::move(value.policy));
  if (!value.checkpoint.empty())
    state.learner_checkpoint = std::make_shared<std::vector<std::uint8_t>>(std::move(value.checkpoint));
  ++state.counts.policies_published;
  return verdict::applied;
}

verdict apply_content(journal_state& state, training_ended& value, std::uint64_t) {
  if (value.generation != state.generation.generation)
    return verdict::generation_passed;
  state.end = value;
  return verdict::applied;
}

verdict apply_content(journal_state& state, place_given& value, std::uint64_t) {
  if (std::exchange(state.places_digest, value.cluster_digest) != value.cluster_digest)
    state.places.clear();
  std::erase_if(state.places, [&](const auto& one) { return one.second == value.host; });
  state.places[value.rank] = std::move(value.host);
  return verdict::applied;
}

verdict apply_content(journal_state& state, shard_layout& value, std::uint64_t) {
  state.shards = std::move(value);
  return verdict::applied;
}

/// Whether an entry of this term may say anything at all.
verdict judge_term(const journal_state& state, const journal_entry& entry) {
  if (std::holds_alternative<term_begun>(entry.content))
    return entry.term > state.term ? verdict::applied : verdict::stale_term;
  if (entry.term < state.term)
    return verdict::stale_term;
  return entry.term == state.term ? verdict::applied : verdict::term_not_begun;
}

template <class T>
bool same(const std::shared_ptr<const T>& left, const std::shared_ptr<const T>& right) {
  return left == right || (left && right && *left == *right);
}

} // namespace

bool operator==(const journal_state& left, const journal_state& right) {
  return left.position == right.position && left.digest == right.digest && left.term == right.term &&
         left.leader == right.leader && left.generation == right.generation && left.last_window == right.last_window &&
         left.newest_key == right.newest_key && left.decisions == right.decisions && same(left.policy, right.policy) &&
         same(left.learner_checkpoint, right.learner_checkpoint) && left.end == right.end &&
         left.places_digest == right.places_digest && left.places == right.places && left.shards == right.shards &&
         left.clients == right.clients && left.counts == right.counts;
}

apply_outcome journal::apply(std::span<const std::uint64_t> words) {
  ++state_.position;
  for (const auto word : words)
    state_.digest = mix(state_.digest, word);
  journal_entry entry;
  if (!decode(words, entry).empty()) {
    ++state_.counts.damaged;
    return {verdict::damaged, false};
  }
  return settle(entry);
}

apply_outcome journal::settle(journal_entry& entry) {
  const auto known = state_.clients.find(entry.key.client);
  if (known != state_.clients.end() && entry.key.sequence <= known->second.sequence) {
    ++state_.counts.duplicated;
    return {known->second.result, true};
  }
  auto result = judge_term(state_, entry);
  if (result == verdict::applied)
    result = std::visit([&](auto& value) { return apply_content(state_, value, entry.term); }, entry.content);
  if (result == verdict::stale_term)
    ++state_.counts.stale_refused;
  else if (result != verdict::applied)
    ++state_.counts.refused;
  remember(entry.key, result);
  return {result, false};
}

void journal::remember(const proposal_key& key, verdict result) {
  auto& clients = state_.clients;
  if (!clients.contains(key.client) && clients.size() >= max_clients)
    clients.erase(std::min_element(clients.begin(), clients.end(), [](const auto& left, const auto& right) {
      return left.second.position < right.second.position;
    }));
  clients[key.client] = {key.sequence, result, state_.position};
}

} // namespace dynamix::replication
