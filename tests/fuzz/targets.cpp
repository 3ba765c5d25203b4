#include "tests/fuzz/targets.hpp"

#include "actors/store_table.hpp"
#include "cluster/cluster_file.hpp"
#include "ledger/codec.hpp"
#include "ledger/run.hpp"
#include "ledger/warnings.hpp"
#include "links/certificate.hpp"
#include "links/file_signature.hpp"
#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "policy/learner.hpp"
#include "policy/state_range.hpp"
#include "replication/challenge.hpp"
#include "replication/journal_codec.hpp"
#include "storage/tensor_file.hpp"
#include "trainer/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::fuzz {
namespace {

using byte_span = std::span<const std::uint8_t>;

void require(bool holds, const char* what) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string text_of(byte_span bytes) {
  return {bytes.begin(), bytes.end()};
}

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
/// checksum is no defence; and what comes before: the challenge.
void read_journal(byte_span bytes) {
  if (bytes.size() >= replication::greeting_bytes)
    replication::decode_greeting(bytes.first<replication::greeting_bytes>());
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

/// `file` with the right checksum and other contents: lines "m KEY VALUE" and "t NAME TYPE EXTENT...", each for what it
/// names or what is new, "d NAME" without it, an empty line, and bytes that fill the tensors again and again.
storage::tensor_file described_file(byte_span bytes, storage::tensor_file file = {}) {
  const auto text = text_of(bytes);
  const auto end = std::min(text.find("\n\n"), text.size());
  const auto fill = text.substr(std::min(end + 2, text.size()));
  const auto remove = [&](const std::string& name) {
    std::erase_if(file.tensors, [&](const auto& record) { return record.name == name; });
  };
  std::istringstream lines(text.substr(0, end));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    words >> kind >> name;
    if (kind == "m" && name != "crc32") {
      std::getline(words >> std::ws, file.metadata[name]);
      continue;
    }
    if (kind == "d") {
      file.metadata.erase(name);
      remove(name);
      continue;
    }
    unsigned int type = 0;
    storage::tensor_record record{.name = name};
    words >> type;
    record.type = static_cast<storage::element_type>(type % 4);
    std::size_t size = storage::element_size(record.type);
    for (std::int64_t extent = 0; record.shape.size() < storage::max_rank && words >> extent;) {
      record.shape.push_back(extent);
      size = extent < 0 || extent > 4096 || size > 65536 ? 1U << 20U : size * static_cast<std::size_t>(extent);
    }
    if (name.empty() || name == "__metadata__" || size > 65536)
      continue;
    remove(name);
    for (std::size_t i = 0; i < size; ++i)
      record.data.push_back(fill.empty() ? 0 : static_cast<std::uint8_t>(fill[i % fill.size()]));
    file.tensors.push_back(std::move(record));
  }
  return file;
}

/// Whether `storage::encode` takes the names before the empty line.
bool has_plain_names(byte_span bytes) {
  const auto text = text_of(bytes);
  return std::ranges::all_of(text.substr(0, text.find("\n\n")), [](char one) { return one >= 0; });
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

/// Whether all numbers of a tensor are finite and, where that is asked, not negative.
bool is_sound(const storage::tensor_record& record, bool positive) {
  const auto each_is = [&]<class Number>(Number) {
    for (std::size_t at = 0; at + sizeof(Number) <= record.data.size(); at += sizeof(Number)) {
      Number number{};
      std::memcpy(&number, record.data.data() + at, sizeof number);
      if (!std::isfinite(static_cast<double>(number)) || (positive && number < 0))
        return false;
    }
    return true;
  };
  return record.type == storage::element_type::f32   ? each_is(float{})
         : record.type == storage::element_type::f64 ? each_is(double{})
         : record.type == storage::element_type::i64 ? each_is(std::int64_t{})
                                                     : true;
}

/// A policy that fits a small cluster and what is described, as the arbitrator's host begins with.
void read_policy(byte_span bytes) {
  static const auto cluster = cluster::parse_cluster_text("[cluster]\nname = \"fuzz\"\n"
                                                          "[arbitrator]\npolicy = \"ppo\"\nmode = \"train\"\n"
                                                          "[ppo]\nhidden = 4\n"
                                                          "[[host]]\nname = \"w0\"\nport = 1\n"
                                                          "roles = [\"worker\", \"arbitrator\"]\n",
                                                          "fuzz.toml");
  require(cluster.errors.empty(), "the cluster of the policy");
  static const auto fitting = [] {
    storage::tensor_file file;
    require(storage::decode(policy::make_learner(cluster.file, {})->save(), file).empty(), "a learner's file");
    return file;
  }();
  if (!has_plain_names(bytes))
    return;
  const auto given = storage::encode(described_file(bytes, fitting));
  std::vector<std::uint8_t> taken;
  try {
    const auto learner = policy::make_learner(cluster.file, given);
    taken = learner->save();
    policy::trained_range(learner->current().parameters);
  } catch (const std::invalid_argument& misfit) {
    return require(*misfit.what() != 0, "a refused policy says why");
  }
  storage::tensor_file file;
  require(storage::decode(taken, file).empty(), "a policy that was read can be written");
  for (const auto& record : file.tensors)
    require(is_sound(record, record.name.ends_with(".square") || record.name.ends_with(".step")),
            "and holds numbers, of which no mean of squares and no count of steps is negative");
  require(policy::make_learner(cluster.file, taken)->save() == taken, "and is the same then");
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

constexpr std::array<target, 9> all = {{{"frames", read_frame},
                                        {"journal", read_journal},
                                        {"store", use_store},
                                        {"ledger", read_ledger},
                                        {"tensors", read_tensors},
                                        {"checkpoints", read_checkpoint},
                                        {"policies", read_policy},
                                        {"cluster-files", read_cluster_file},
                                        {"certificates", read_certificate}}};

} // namespace

std::span<const target> targets() {
  return all;
}

const target* find_target(std::string_view name) {
  const auto found = std::ranges::find(all, name, &target::name);
  return found == all.end() ? nullptr : &*found;
}

} // namespace dynamix::fuzz
