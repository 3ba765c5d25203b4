#include "tests/unit/replication/journal_examples.hpp"

#include <cstdio>
#include <cstdlib>

namespace dynamix::replication {

journal_entry begin_term(proposal_key key, std::uint64_t term, std::uint64_t leader) {
  return {key, term, term_begun{leader}};
}

journal_entry form_generation(proposal_key key, std::uint64_t term, std::uint64_t generation, std::uint32_t members,
                              std::uint64_t next_window) {
  generation_formed value{.generation = generation, .source = members - 1, .next_window = next_window};
  for (std::uint32_t rank = 0; rank < members; ++rank)
    value.members.push_back({rank, 1000 + rank});
  return {key, term, value};
}

journal_entry decide_window(proposal_key key, std::uint64_t term, std::uint64_t window, std::uint64_t generation,
                            std::uint32_t members) {
  window_decided value{.window = window};
  for (std::uint32_t rank = 0; rank < members; ++rank)
    value.decisions.push_back({.key = {term, window},
                               .generation = generation,
                               .rank = rank,
                               .batch = 32 + static_cast<std::uint32_t>(window % 64),
                               .first_step = window * 20 + 2});
  return {key, term, value};
}

journal_entry publish_policy(proposal_key key, std::uint64_t term, std::uint64_t version, std::size_t bytes,
                             std::size_t checkpoint_bytes) {
  policy_published value;
  value.policy.version = version;
  value.policy.entropy = 0.5;
  value.policy.parameters.assign(bytes, static_cast<std::uint8_t>(version));
  value.checkpoint.assign(checkpoint_bytes, static_cast<std::uint8_t>(version + 1));
  return {key, term, value};
}

journal_entry end_training(proposal_key key, std::uint64_t term, std::uint64_t generation, std::uint32_t rank,
                           std::uint64_t cluster_digest) {
  return {key, term, training_ended{.generation = generation, .rank = rank, .cluster_digest = cluster_digest}};
}

journal_entry give_place(proposal_key key, std::uint64_t term, std::uint32_t rank, const std::string& host,
                         std::uint64_t cluster_digest) {
  return {key, term, place_given{.rank = rank, .host = host, .cluster_digest = cluster_digest}};
}

journal_entry lay_out_shards(proposal_key key, std::uint64_t term, std::uint64_t cluster_digest) {
  return {key, term, shard_layout{.cluster_digest = cluster_digest, .serving = {1, 3}, .homes = {1, 3, 3, 0}}};
}

apply_outcome apply(journal& to, const journal_entry& entry) {
  word_list words;
  if (const auto fault = encode(entry, words); !fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return to.apply(words);
}

std::vector<journal_entry> one_of_each() {
  return {begin_term({7, 1}, 3, 2),     form_generation({7, 2}, 3, 1), decide_window({7, 3}, 3, 1),
          publish_policy({7, 4}, 3, 1), end_training({7, 5}, 3),       give_place({7, 6}, 3, 4, "guest"),
          lay_out_shards({7, 7}, 3)};
}

} // namespace dynamix::replication
