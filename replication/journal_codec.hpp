#pragma once

/// Journal entries and snapshots as words, for libraft's buffers (whose length must be a multiple of 8). Decisions and
/// policies in them are frames of messages/codec.

#include "replication/journal.hpp"
#include "replication/words.hpp"

#include <span>
#include <string>
#include <utility>

namespace dynamix::replication {

/// The largest entry: a policy and a checkpoint, and room for what goes with them.
inline constexpr std::size_t max_entry_words =
    messages::max_frame_words + max_checkpoint_bytes / sizeof(std::uint64_t) + 1024;

/// Empty, or what makes no sense in it: "generation_formed: members are not by rising rank".
std::string validate(const journal_entry& entry);

/// Returns an empty string, or why this is not an entry that a replica would take; then `words` is empty.
std::string encode(const journal_entry& entry, word_list& words);
/// Whatever the words are, this neither crashes nor takes more memory than a few times theirs. Returns an empty string
/// and a valid entry, or what is wrong.
std::string decode(std::span<const std::uint64_t> words, journal_entry& entry);

word_list encode_snapshot(const journal_state& state);
std::string decode_snapshot(std::span<const std::uint64_t> words, journal_state& state);

// What entries and snapshots have in common.
void write_generation(word_writer& out, const generation_formed& value);
generation_formed read_generation(word_reader& in);
void write_end(word_writer& out, const training_ended& value);
training_ended read_end(word_reader& in);
void write_place(word_writer& out, std::uint32_t rank, const std::string& host);
std::pair<std::uint32_t, std::string> read_place(word_reader& in);
void write_layout(word_writer& out, const shard_layout& value);
shard_layout read_layout(word_reader& in);
bool write_decisions(word_writer& out, const std::vector<messages::decision>& decisions);
std::vector<messages::decision> read_decisions(word_reader& in);
std::string validate(const generation_formed& value);
std::string validate(const training_ended& value);
std::string validate(const place_given& value);
std::string validate(const shard_layout& value);
/// Decisions under one key, of one generation.
std::string validate(const std::vector<messages::decision>& decisions, const messages::decision_key& key);

} // namespace dynamix::replication
