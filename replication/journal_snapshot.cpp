#include "replication/journal_codec.hpp"

#include <memory>

namespace dynamix::replication {
namespace {

constexpr std::size_t count_fields = 8;

void write_counts(word_writer& out, const journal_counts& counts) {
  for (const auto value : {counts.windows_decided, counts.generations_formed, counts.policies_published,
                           counts.terms_begun, counts.stale_refused, counts.duplicated, counts.refused, counts.damaged})
    out.number(value);
}

journal_counts read_counts(word_reader& in) {
  std::uint64_t values[count_fields];
  for (auto& value : values)
    value = in.number();
  return {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
}

void write_clients(word_writer& out, const std::map<std::uint64_t, client_record>& clients) {
  out.number(clients.size());
  for (const auto& [client, record] : clients) {
    out.number(client);
    out.number(record.sequence);
    out.number(static_cast<std::uint64_t>(record.result));
    out.number(record.position);
  }
}

std::map<std::uint64_t, client_record> read_clients(word_reader& in) {
  std::map<std::uint64_t, client_record> clients;
  const auto count = in.count(max_clients);
  for (std::uint64_t index = 0; index < count && in.good(); ++index) {
    const auto client = in.number();
    client_record record{.sequence = in.number()};
    record.result = static_cast<verdict>(in.count(static_cast<std::uint64_t>(verdict::damaged)));
    record.position = in.number();
    if (client == 0 || record.sequence == 0 || record.result < verdict::applied ||
        !clients.emplace(client, record).second)
      in.fail();
  }
  return clients;
}

void write_learner(word_writer& out, const journal_state& state) {
  out.number(state.policy != nullptr);
  if (state.policy)
    out.frame(*state.policy); // it came in as a frame, so it fits one
  out.number(state.learner_checkpoint != nullptr);
  if (state.learner_checkpoint)
    out.bytes(*state.learner_checkpoint);
}

void read_learner(word_reader& in, journal_state& state) {
  if (in.count(1) == 1)
    state.policy = std::make_shared<messages::policy_version>(in.frame<messages::policy_version>());
  if (in.count(1) == 1)
    state.learner_checkpoint = std::make_shared<std::vector<std::uint8_t>>(in.bytes(max_checkpoint_bytes));
}

void write_places(word_writer& out, const journal_state& state) {
  out.number(state.places_digest);
  out.number(state.places.size());
  for (const auto& [rank, host] : state.places)
    write_place(out, rank, host);
}

void read_places(word_reader& in, journal_state& state) {
  state.places_digest = in.number();
  const auto count = in.count(messages::max_workers);
  for (std::uint64_t index = 0; index < count && in.good(); ++index) {
    auto [rank, host] = read_place(in);
    if (!validate(place_given{.rank = rank, .host = host}).empty() ||
        !state.places.emplace(rank, std::move(host)).second)
      in.fail();
  }
}

/// What the fields say of each other.
std::string validate_state(const journal_state& state) {
  if (state.generation.generation > 0)
    if (auto fault = validate(state.generation); !fault.empty())
      return fault;
  if (state.end.generation > 0 && state.end.generation != state.generation.generation)
    return "the end of another generation";
  if (state.newest_key.window > 0)
    return validate(state.decisions, state.newest_key);
  return state.decisions.empty() ? "" : "decisions on no window";
}

} // namespace

word_list encode_snapshot(const journal_state& state) {
  word_list words(seal_words, 0);
  word_writer out(words);
  for (const auto value : {state.position, state.digest, state.term, state.leader, state.last_window,
                           state.newest_key.term, state.newest_key.window})
    out.number(value);
  write_generation(out, state.generation);
  write_decisions(out, state.decisions);
  write_learner(out, state);
  write_clients(out, state.clients);
  write_counts(out, state.counts);
  // Last, and only where they are known: a snapshot of a journal that does not know of them reads as before.
  const bool laid_out = !state.shards.homes.empty();
  if (state.end.generation > 0 || !state.places.empty() || laid_out)
    write_end(out, state.end);
  if (!state.places.empty() || laid_out)
    write_places(out, state);
  if (laid_out)
    write_layout(out, state.shards);
  seal(block_kind::snapshot, words);
  return words;
}

std::string decode_snapshot(std::span<const std::uint64_t> words, journal_state& state) {
  state = {};
  const auto content = unseal(block_kind::snapshot, words);
  if (content.empty())
    return "not a snapshot, or a damaged one";
  word_reader in(content);
  for (auto* field : {&state.position, &state.digest, &state.term, &state.leader, &state.last_window,
                      &state.newest_key.term, &state.newest_key.window})
    *field = in.number();
  state.generation = read_generation(in);
  state.decisions = read_decisions(in);
  read_learner(in, state);
  state.clients = read_clients(in);
  state.counts = read_counts(in);
  if (in.good() && !in.complete()) {
    state.end = read_end(in);
    const bool more = in.good() && !in.complete();
    if (more)
      read_places(in, state);
    const bool laid_out = more && in.good() && !in.complete();
    if (laid_out && !validate(state.shards = read_layout(in)).empty())
      in.fail();
    if (more && !laid_out && state.places.empty())
      in.fail(); // then they would not have been written
    if (!(more && state.end == training_ended{}) && !validate(state.end).empty())
      in.fail();
  }
  return in.complete() ? validate_state(state) : "a damaged snapshot";
}

} // namespace dynamix::replication
