#include "replication/journal_codec.hpp"
#include "tests/unit/replication/journal_examples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dynamix::replication {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

word_list encoded(const journal_entry& entry) {
  word_list words;
  EXPECT_EQ(encode(entry, words), "");
  return words;
}

journal_state example_state() {
  journal book;
  for (const auto& entry : one_of_each())
    apply(book, entry);
  apply(book, decide_window({8, 1}, 1, 7)); // stale
  return book.state();
}

TEST(JournalCodec, ReturnsWhatWasEncoded) {
  for (const auto& entry : one_of_each()) {
    journal_entry decoded;
    EXPECT_EQ(decode(encoded(entry), decoded), "");
    EXPECT_EQ(decoded, entry) << kind_name(entry);
  }
}

TEST(JournalCodec, CarriesTheLargestPolicyWithTheLargestCheckpoint) {
  const auto entry = publish_policy({1, 1}, 1, 1, messages::max_policy_bytes, max_checkpoint_bytes);
  journal_entry decoded;
  EXPECT_EQ(decode(encoded(entry), decoded), "");
  EXPECT_EQ(decoded, entry);
}

TEST(JournalCodec, CarriesDecisionsForTheLargestCluster) {
  const auto entry = decide_window({1, 1}, 1, 1, 1, messages::max_workers);
  journal_entry decoded;
  EXPECT_EQ(decode(encoded(entry), decoded), "");
  EXPECT_EQ(decoded, entry);
}

TEST(JournalCodec, RefusesToEncodeWhatMakesNoSense) {
  std::vector<std::pair<journal_entry, std::string>> cases;
  cases.emplace_back(begin_term({0, 1}, 1), "client");
  cases.emplace_back(begin_term({1, 0}, 1), "sequence");
  cases.emplace_back(begin_term({1, 1}, 0), "term");
  cases.emplace_back(begin_term({1, 1}, 1, 0), "leader");
  cases.emplace_back(form_generation({1, 1}, 1, 0), "generation");
  cases.emplace_back(form_generation({1, 1}, 1, 1, messages::max_workers + 1), "4097 members");
  cases.emplace_back(decide_window({1, 1}, 1, 0), "window 0");
  cases.emplace_back(decide_window({1, 1}, 1, 1, 1, 0), "0 decisions");
  cases.emplace_back(publish_policy({1, 1}, 1, 1, messages::max_policy_bytes + 1), "policy_published");
  cases.emplace_back(end_training({1, 1}, 1, 0), "training_ended");
  cases.emplace_back(end_training({1, 1}, 1, 1, messages::max_workers), "training_ended");
  cases.emplace_back(publish_policy({1, 1}, 1, 1, 10, max_checkpoint_bytes + 1), "checkpoint");
  cases.emplace_back(give_place({1, 1}, 1, messages::max_workers, "guest"), "place_given");
  cases.emplace_back(give_place({1, 1}, 1, 1, ""), "place_given");
  const auto broken_layout = [&](auto break_it) {
    auto entry = lay_out_shards({1, 1}, 1);
    break_it(std::get<shard_layout>(entry.content));
    cases.emplace_back(entry, "shard_layout");
  };
  broken_layout([](shard_layout& value) { value.homes.clear(); });
  broken_layout([](shard_layout& value) { value.homes.assign(messages::max_workers + 1, 1); });
  broken_layout([](shard_layout& value) { value.homes[0] = max_nodes; });
  broken_layout([](shard_layout& value) { value.serving = {3, 1}; });
  cases.emplace_back(give_place({1, 1}, 1, 1, std::string(max_place_name + 1, 'a')), "place_given");
  auto stranger = form_generation({1, 1}, 1, 1);
  std::get<generation_formed>(stranger.content).source = 3;
  cases.emplace_back(stranger, "source");
  auto unordered = form_generation({1, 1}, 1, 1);
  std::swap(std::get<generation_formed>(unordered.content).members[0],
            std::get<generation_formed>(unordered.content).members[1]);
  cases.emplace_back(unordered, "rising rank");
  auto keyed = decide_window({1, 1}, 1, 1);
  std::get<window_decided>(keyed.content).decisions[1].key.window = 2;
  cases.emplace_back(keyed, "another key");
  auto mixed = decide_window({1, 1}, 1, 1);
  std::get<window_decided>(mixed.content).decisions[1].generation = 2;
  cases.emplace_back(mixed, "two generations");
  auto infinite = publish_policy({1, 1}, 1, 1);
  std::get<policy_published>(infinite.content).policy.entropy = std::numeric_limits<double>::infinity();
  cases.emplace_back(infinite, "policy_published");
  for (const auto& [entry, part] : cases) {
    word_list words;
    EXPECT_THAT(encode(entry, words), HasSubstr(part));
    EXPECT_THAT(words, IsEmpty());
  }
}

TEST(JournalCodec, MakesASnapshotOfAllThatAJournalKnows) {
  const auto state = example_state();
  journal_state restored;
  EXPECT_EQ(decode_snapshot(encode_snapshot(state), restored), "");
  EXPECT_TRUE(restored == state);
  journal_state empty;
  EXPECT_EQ(decode_snapshot(encode_snapshot(journal_state()), empty), "");
  EXPECT_TRUE(empty == journal_state());
}

TEST(JournalCodec, ReadsASnapshotThatKnowsOfNoEnd) {
  auto state = example_state();
  state.places = {};
  state.places_digest = 0;
  state.shards = {};
  const auto with_end = encode_snapshot(state);
  state.end = {};
  const auto without = encode_snapshot(state);
  auto older = word_list(with_end.begin(), with_end.end() - 3);
  seal(block_kind::snapshot, older);
  EXPECT_EQ(without, older) << "what a release without the end wrote, and reads";
  journal_state restored;
  EXPECT_EQ(decode_snapshot(older, restored), "");
  EXPECT_TRUE(restored == state);
}

TEST(JournalCodec, KeepsPlacesInASnapshotThatKnowsOfNoEnd) {
  auto state = example_state();
  state.end = {};
  journal_state restored;
  EXPECT_EQ(decode_snapshot(encode_snapshot(state), restored), "");
  EXPECT_EQ(restored.places, (std::map<std::uint32_t, std::string>{{4, "guest"}}));
  EXPECT_TRUE(restored == state);
}

TEST(JournalCodec, GoesOnFromASnapshotAsIfThereHadBeenNone) {
  journal original;
  for (const auto& entry : one_of_each())
    apply(original, entry);
  journal_state state;
  ASSERT_EQ(decode_snapshot(encode_snapshot(original.state()), state), "");
  journal restored;
  restored.restore(state);
  const std::vector<journal_entry> more = {decide_window({7, 3}, 3, 1), decide_window({7, 7}, 3, 2),
                                           begin_term({9, 1}, 4, 3), decide_window({7, 8}, 3, 3)};
  for (const auto& entry : more) {
    const auto left = apply(original, entry);
    const auto right = apply(restored, entry);
    EXPECT_EQ(left.result, right.result);
    EXPECT_EQ(left.repeated, right.repeated);
  }
  EXPECT_TRUE(original.state() == restored.state());
}

TEST(JournalCodec, NoticesEveryFlippedBit) {
  for (const auto& entry : one_of_each()) {
    const auto words = encoded(entry);
    for (std::size_t bit = 0; bit < words.size() * 64; ++bit) {
      auto damaged = words;
      damaged[bit / 64] ^= std::uint64_t{1} << (bit % 64);
      journal_entry decoded;
      ASSERT_NE(decode(damaged, decoded), "") << kind_name(entry) << ", bit " << bit;
    }
  }
}

TEST(JournalCodec, NoticesEveryCutAndEveryAddition) {
  for (const auto& entry : one_of_each()) {
    const auto words = encoded(entry);
    journal_entry decoded;
    for (std::size_t size = 0; size < words.size(); ++size)
      ASSERT_NE(decode(std::span(words).first(size), decoded), "");
    auto longer = words;
    longer.push_back(0);
    EXPECT_NE(decode(longer, decoded), "");
  }
}

/// Damage with a checksum that fits it, so that it reaches what lies behind the seal.
word_list damage(std::mt19937_64& random, word_list words, block_kind kind) {
  const std::uint64_t poison[] = {0, 1, ~std::uint64_t{0}, 0x7ff8000000000000, 1U << 20, 4096, 4097, 0xffffffff};
  for (auto changes = 1 + random() % 4; changes > 0; --changes) {
    const auto at = seal_words + random() % (words.size() - seal_words);
    switch (random() % 4) {
    case 0:
      words[at] = poison[random() % std::size(poison)];
      break;
    case 1:
      words[at] ^= std::uint64_t{1} << (random() % 64);
      break;
    case 2:
      words.resize(std::max(at, seal_words + 1));
      break;
    default:
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), random());
    }
  }
  seal(kind, words);
  return words;
}

TEST(JournalCodec, SurvivesDamageBehindAGoodChecksum) {
  std::mt19937_64 random(20240229);
  std::vector<word_list> corpus;
  for (const auto& entry : one_of_each())
    corpus.push_back(encoded(entry));
  int refused = 0;
  for (int round = 0; round < 200'000; ++round) {
    const auto words = damage(random, corpus[random() % corpus.size()], block_kind::entry);
    journal_entry decoded;
    if (!decode(words, decoded).empty()) {
      ++refused;
      continue;
    }
    word_list again; // what is taken is valid, and a journal can do with it what it will
    ASSERT_EQ(encode(decoded, again), "");
    journal book;
    book.apply(again);
  }
  EXPECT_GT(refused, 100'000);
}

TEST(JournalCodec, SurvivesDamagedSnapshots) {
  std::mt19937_64 random(20240301);
  const auto snapshot = encode_snapshot(example_state());
  int refused = 0;
  for (int round = 0; round < 100'000; ++round) {
    const auto words = damage(random, snapshot, block_kind::snapshot);
    journal_state state;
    if (!decode_snapshot(words, state).empty()) {
      ++refused;
      continue;
    }
    journal_state again;
    ASSERT_EQ(decode_snapshot(encode_snapshot(state), again), "");
    ASSERT_TRUE(again == state);
  }
  EXPECT_GT(refused, 10'000);
}

TEST(JournalCodec, TellsEntriesFromSnapshots) {
  journal_entry entry;
  journal_state state;
  EXPECT_NE(decode(encode_snapshot({}), entry), "");
  EXPECT_NE(decode_snapshot(encoded(one_of_each()[0]), state), "");
}

} // namespace
} // namespace dynamix::replication
