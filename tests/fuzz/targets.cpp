#include "tests/fuzz/targets.hpp"

#include "actors/network/store_table.hpp"
#include "cluster/cluster_file.hpp"
#include "ledger/codec.hpp"
#include "ledger/run.hpp"
#include "ledger/warnings.hpp"
#include "links/certificate.hpp"
#include "links/file_signature.hpp"
#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "replication/journal_codec.hpp"
#include "storage/tensor_file.hpp"
#include "tests/fuzz/described_file.hpp"
#include "trainer/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace dynamix::fuzz {
namespace {

std::vector<std::uint64_t> words_of(byte_span bytes) {
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (!words.empty())
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  return words;
}

void read_frame(byte_span bytes) {
  const auto decoded = messages::decode(words_of(bytes));
  if (!decoded)
    return require(!decoded.error().text.empty(), "a refused frame says why");
  require(std::visit([](const auto& one) { return messages::validate(one); }, *decoded).empty(),
          "what is accepted is valid");
  const auto encoded = messages::encode(*decoded);
  require(static_cast<bool>(encoded), "what is accepted can be sent");
  const auto again = messages::decode(*encoded);
  require(again && *again == *decoded, "and is the same then");
}

/// What libraft hands over: entries and, where the first word is odd, snapshots, both with the right seal, since a
/// checksum is not a defence.
void read_journal(byte_span bytes) {
  auto words = words_of(bytes);
  const bool snapshot = !words.empty() && words.front() % 2 == 1;
  replication::word_list block(replication::seal_words, 0);
  block.insert(block.end(), words.empty() ? words.end() : words.begin() + 1, words.end());
  replication::seal(snapshot ? replication::block_kind::snapshot : replication::block_kind::entry, block);
  if (snapshot) {
    replication::journal_state state;
    if (replication::decode_snapshot(block, state).empty())
      require(replication::decode_snapshot(replication::encode_snapshot(state), state).empty(),
              "an accepted snapshot can be written");
    return;
  }
  replication::journal_entry entry;
  if (!replication::decode(block, entry).empty())
    return;
  require(replication::validate(entry).empty(), "an accepted entry is valid");
  require(replication::encode(entry, block).empty(), "an accepted entry can be written");
}

/// Lines of "verb amount key value...": operations of one store.
void use_store(byte_span bytes) {
  actors::store_table table(3);
  std::size_t count = 0;
  std::istringstream lines(text_of(bytes));
  for (std::string line; std::getline(lines, line) && ++count < 4096;) {
    std::istringstream words(line);
    messages::store_operation operation;
    unsigned int verb = 0;
    words >> verb >> operation.amount;
    operation.verb = static_cast<messages::store_verb>(verb % 16);
    std::string word;
    for (words >> word; words && operation.keys.size() < messages::max_store_keys; words >> word)
      operation.keys.push_back(word);
    if (!operation.keys.empty())
      operation.value.assign(operation.keys.back().begin(), operation.keys.back().end());
    if (messages::validate(operation).empty())
      require(messages::validate(table.apply(operation)).empty(), "an answer is valid");
  }
}

/// Lines that a run's page, report and replay read and fold.
void read_ledger(byte_span bytes) {
  static const auto cluster =
      cluster::parse_cluster_text("[cluster]\nname = \"fuzz\"\n"
                                  "[[host]]\nname = \"hub\"\naddress = \"127.0.0.1\"\nport = 1\n"
                                  "roles = [\"arbitrator\"]\n"
                                  "[[host]]\nname = \"w0\"\naddress = \"127.0.0.1\"\nport = 2\n"
                                  "roles = [\"worker\"]\n"
                                  "[[host]]\nname = \"w1\"\naddress = \"127.0.0.1\"\nport = 3\n"
                                  "roles = [\"worker\"]\n",
                                  "fuzz.toml");
  require(cluster.errors.empty(), "the cluster of the ledger");
  ledger::run run(cluster.file);
  std::istringstream lines(text_of(bytes));
  for (std::string line; std::getline(lines, line);) {
    const auto row = ledger::parse_line(line);
    if (!row)
      continue;
    require(ledger::parse_line(ledger::to_json_line(*row)).has_value(), "a row that was read can be written");
    run.add(*row);
  }
  ledger::find_warnings(run);
}

void read_tensors(byte_span bytes) {
  storage::tensor_file file;
  if (!storage::decode(bytes, file).empty())
    return;
  storage::tensor_file again;
  require(storage::decode(storage::encode(file), again).empty(), "a file that was read can be written");
}

void read_checkpoint(byte_span bytes) {
  trainer::checkpoint state;
  if (!has_plain_names(bytes))
    return;
  if (!trainer::decode(storage::encode(described_file(bytes)), state).empty())
    return;
  require(state.members.size() == state.batches.size(), "each member has a batch size");
  trainer::checkpoint again;
  require(trainer::decode(trainer::encode(state), again).empty(), "a checkpoint that was read can be written");
}

void read_cluster_file(byte_span bytes) {
  const auto read = cluster::parse_cluster_text(text_of(bytes), "fuzz.toml");
  if (!read.errors.empty())
    return;
  const auto again = cluster::parse_cluster_text(cluster::to_toml(read.file), "again.toml");
  require(again.errors.empty(), "a file that was read can be written");
  require(again.file.digest() == read.file.digest(), "and says the same then");
}

void read_certificate(byte_span bytes) {
  for (const auto& facts : links::read_certificates(text_of(bytes)))
    require(facts.fingerprint.size() == 64, "a certificate has a fingerprint");
}

const std::array own = {target{"frames", read_frame},
                        target{"journal", read_journal},
                        target{"store", use_store},
                        target{"ledger", read_ledger},
                        target{"tensors", read_tensors},
                        target{"checkpoints", read_checkpoint},
                        target{"cluster-files", read_cluster_file},
                        target{"certificates", read_certificate},
                        control_target(),
                        decisions_target(),
                        mesh_target(),
                        raft_target()};

} // namespace

std::span<const target> targets() {
  static const auto all = [] {
    std::vector<target> found(own.begin(), own.end());
    std::ranges::copy(file_targets(), std::back_inserter(found));
    return found;
  }();
  return all;
}

const target* find_target(std::string_view name) {
  const auto all = targets();
  const auto found = std::ranges::find(all, name, &target::name);
  return found == all.end() ? nullptr : &*found;
}

} // namespace dynamix::fuzz
