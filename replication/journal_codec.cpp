#include "replication/journal_codec.hpp"

#include "messages/validation.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <functional>
#include <tuple>

namespace dynamix::replication {
namespace {

template <class... Visitors>
struct overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
overloaded(Visitors...) -> overloaded<Visitors...>; // clang 14 needs to be told

std::string validate_content(const journal_entry& entry) {
  return std::visit(overloaded{
                        [](const term_begun& value) -> std::string { return value.leader > 0 ? "" : "no leader"; },
                        [](const generation_formed& value) { return validate(value); },
                        [&](const window_decided& value) -> std::string {
                          return value.window == 0 ? "window 0" : validate(value.decisions, {entry.term, value.window});
                        },
                        [](const policy_published& value) -> std::string {
                          if (value.checkpoint.size() > max_checkpoint_bytes)
                            return "the checkpoint is too large";
                          return messages::validate(value.policy);
                        },
                        [](const training_ended& value) { return validate(value); },
                        [](const place_given& value) { return validate(value); },
                        [](const shard_layout& value) { return validate(value); },
                    },
                    entry.content);
}

bool write_content(word_writer& out, const journal_entry& entry) {
  return std::visit(overloaded{
                        [&](const term_begun& value) {
                          out.number(value.leader);
                          return true;
                        },
                        [&](const generation_formed& value) {
                          write_generation(out, value);
                          return true;
                        },
                        [&](const window_decided& value) {
                          out.number(value.window);
                          return write_decisions(out, value.decisions);
                        },
                        [&](const policy_published& value) {
                          out.bytes(value.checkpoint);
                          return out.frame(value.policy);
                        },
                        [&](const training_ended& value) {
                          write_end(out, value);
                          return true;
                        },
                        [&](const place_given& value) {
                          out.number(value.cluster_digest);
                          write_place(out, value.rank, value.host);
                          return true;
                        },
                        [&](const shard_layout& value) {
                          write_layout(out, value);
                          return true;
                        },
                    },
                    entry.content);
}

bool read_content(word_reader& in, std::uint64_t kind, journal_entry& entry) {
  switch (kind) {
  case 0:
    entry.content = term_begun{in.number()};
    return true;
  case 1:
    entry.content = read_generation(in);
    return true;
  case 2: {
    window_decided value{.window = in.number()};
    value.decisions = read_decisions(in);
    entry.content = std::move(value);
    return true;
  }
  case 3: {
    policy_published value;
    value.checkpoint = in.bytes(max_checkpoint_bytes);
    value.policy = in.frame<messages::policy_version>();
    entry.content = std::move(value);
    return true;
  }
  case 4:
    entry.content = read_end(in);
    return true;
  case 5: {
    place_given value{.host = {}, .cluster_digest = in.number()};
    std::tie(value.rank, value.host) = read_place(in);
    entry.content = std::move(value);
    return true;
  }
  case 6:
    entry.content = read_layout(in);
    return true;
  default:
    return false;
  }
}

} // namespace

std::string validate(const journal_entry& entry) {
  if (entry.key.client == 0 || entry.key.sequence == 0)
    return "an entry without client or sequence";
  if (entry.term == 0)
    return "an entry without term";
  const auto fault = validate_content(entry);
  return fault.empty() ? fault : std::string(kind_name(entry)) + ": " + fault;
}

std::string encode(const journal_entry& entry, word_list& words) {
  words.assign(seal_words, 0);
  word_writer out(words);
  auto fault = validate(entry);
  if (fault.empty()) {
    out.number(entry.key.client);
    out.number(entry.key.sequence);
    out.number(entry.term);
    out.number(entry.content.index());
    if (!write_content(out, entry) || words.size() > max_entry_words)
      fault = std::string(kind_name(entry)) + " cannot be encoded";
  }
  if (fault.empty())
    seal(block_kind::entry, words);
  else
    words.clear();
  return fault;
}

std::string decode(std::span<const std::uint64_t> words, journal_entry& entry) {
  entry = {};
  if (words.size() > max_entry_words)
    return fmt::format("an entry of {} words", words.size());
  const auto content = unseal(block_kind::entry, words);
  if (content.empty())
    return "not an entry, or a damaged one";
  word_reader in(content);
  entry.key = {in.number(), in.number()};
  entry.term = in.number();
  const auto kind = in.number();
  if (!read_content(in, kind, entry))
    return fmt::format("an entry of unknown kind {}", kind);
  return in.complete() ? validate(entry) : "a damaged " + std::string(kind_name(entry));
}

void write_generation(word_writer& out, const generation_formed& value) {
  out.number(value.generation);
  out.number(value.source);
  out.number(value.next_window);
  out.number(value.members.size());
  for (const auto& member : value.members) {
    out.number(member.rank);
    out.number(member.incarnation);
  }
}

generation_formed read_generation(word_reader& in) {
  generation_formed value;
  value.generation = in.number();
  value.source = static_cast<std::uint32_t>(in.count(messages::max_workers));
  value.next_window = in.number();
  const auto members = in.count(messages::max_workers);
  for (std::uint64_t index = 0; index < members && in.good(); ++index) {
    const auto rank = static_cast<std::uint32_t>(in.count(messages::max_workers));
    value.members.push_back({rank, in.number()});
  }
  return value;
}

void write_end(word_writer& out, const training_ended& value) {
  out.number(value.generation);
  out.number(value.rank);
  out.number(value.cluster_digest);
}

training_ended read_end(word_reader& in) {
  training_ended value{.generation = in.number()};
  value.rank = static_cast<std::uint32_t>(in.count(messages::max_workers));
  value.cluster_digest = in.number();
  return value;
}

void write_place(word_writer& out, std::uint32_t rank, const std::string& host) {
  out.number(rank);
  out.bytes({reinterpret_cast<const std::uint8_t*>(host.data()), host.size()});
}

std::pair<std::uint32_t, std::string> read_place(word_reader& in) {
  const auto rank = static_cast<std::uint32_t>(in.count(messages::max_workers));
  const auto name = in.bytes(max_place_name);
  return {rank, std::string(name.begin(), name.end())};
}

void write_layout(word_writer& out, const shard_layout& value) {
  out.number(value.cluster_digest);
  for (const auto* nodes : {&value.serving, &value.homes}) {
    out.number(nodes->size());
    for (const auto node : *nodes)
      out.number(node);
  }
}

shard_layout read_layout(word_reader& in) {
  shard_layout value{.cluster_digest = in.number(), .serving = {}, .homes = {}};
  for (auto* nodes : {&value.serving, &value.homes}) {
    const auto count = in.count(max_nodes);
    for (std::uint64_t index = 0; index < count && in.good(); ++index)
      nodes->push_back(static_cast<std::uint32_t>(in.count(max_nodes)));
  }
  return value;
}

bool write_decisions(word_writer& out, const std::vector<messages::decision>& decisions) {
  out.number(decisions.size());
  for (const auto& decision : decisions)
    if (!out.frame(decision))
      return false;
  return true;
}

std::vector<messages::decision> read_decisions(word_reader& in) {
  std::vector<messages::decision> decisions;
  const auto count = in.count(messages::max_workers);
  for (std::uint64_t index = 0; index < count && in.good(); ++index)
    decisions.push_back(in.frame<messages::decision>());
  return decisions;
}

std::string validate(const generation_formed& value) {
  if (value.generation == 0 || value.next_window == 0)
    return "generation or window 0";
  if (value.members.empty() || value.members.size() > messages::max_workers)
    return fmt::format("{} members", value.members.size());
  bool source_is_member = false;
  for (std::size_t index = 0; index < value.members.size(); ++index) {
    const auto& member = value.members[index];
    if (member.rank >= messages::max_workers || member.incarnation == 0)
      return fmt::format("rank {} out of range or without incarnation", member.rank);
    if (index > 0 && member.rank <= value.members[index - 1].rank)
      return "members are not by rising rank";
    source_is_member = source_is_member || member.rank == value.source;
  }
  return source_is_member ? "" : "the source is not a member";
}

std::string validate(const training_ended& value) {
  return value.generation == 0 || value.rank >= messages::max_workers ? "no generation, or no rank" : "";
}

std::string validate(const place_given& value) {
  return value.rank >= messages::max_workers || value.host.empty() || value.host.size() > max_place_name
             ? "no rank, or no host"
             : "";
}

std::string validate(const shard_layout& value) {
  const auto beyond = [](std::uint32_t node) { return node >= max_nodes; };
  if (value.homes.empty() || value.homes.size() > messages::max_workers || value.serving.size() > max_nodes)
    return fmt::format("{} shards for {} workers", value.serving.size(), value.homes.size());
  if (std::ranges::any_of(value.serving, beyond) || std::ranges::any_of(value.homes, beyond))
    return "a node beyond all trees";
  return std::ranges::adjacent_find(value.serving, std::greater_equal{}) == value.serving.end()
             ? ""
             : "shards are not by rising node";
}

std::string validate(const std::vector<messages::decision>& decisions, const messages::decision_key& key) {
  if (decisions.empty() || decisions.size() > messages::max_workers)
    return fmt::format("{} decisions", decisions.size());
  for (std::size_t index = 0; index < decisions.size(); ++index) {
    const auto& decision = decisions[index];
    if (decision.key != key)
      return "a decision under another key";
    if (decision.generation != decisions.front().generation)
      return "decisions for two generations";
    if (index > 0 && decision.rank <= decisions[index - 1].rank)
      return "decisions are not by rising rank";
    if (auto fault = messages::validate(decision); !fault.empty())
      return fault;
  }
  return "";
}

} // namespace dynamix::replication
