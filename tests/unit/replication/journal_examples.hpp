#pragma once

#include "replication/journal.hpp"
#include "replication/journal_codec.hpp"

#include <vector>

namespace dynamix::replication {

journal_entry begin_term(proposal_key key, std::uint64_t term, std::uint64_t leader = 1);
/// Members with the ranks 0 to `members` - 1.
journal_entry form_generation(proposal_key key, std::uint64_t term, std::uint64_t generation, std::uint32_t members = 3,
                              std::uint64_t next_window = 1);
journal_entry decide_window(proposal_key key, std::uint64_t term, std::uint64_t window, std::uint64_t generation = 1,
                            std::uint32_t members = 3);
journal_entry publish_policy(proposal_key key, std::uint64_t term, std::uint64_t version, std::size_t bytes = 100,
                             std::size_t checkpoint_bytes = 33);
journal_entry end_training(proposal_key key, std::uint64_t term, std::uint64_t generation = 1, std::uint32_t rank = 0,
                           std::uint64_t cluster_digest = 77);
journal_entry give_place(proposal_key key, std::uint64_t term, std::uint32_t rank, const std::string& host,
                         std::uint64_t cluster_digest = 77);
/// Of four workers in shards 1 and 3, one of them in whichever has room.
journal_entry lay_out_shards(proposal_key key, std::uint64_t term, std::uint64_t cluster_digest = 7);

/// Encodes and applies; the entry must be valid.
apply_outcome apply(journal& to, const journal_entry& entry);

/// One of each kind, in an order in which a journal applies all of them.
std::vector<journal_entry> one_of_each();

} // namespace dynamix::replication
