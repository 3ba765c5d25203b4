// The dealer alone: what each member uses, and what its data loader fetches before, under changes at every step.

#include "client/leases.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

namespace dynamix::client {
namespace {

constexpr std::uint32_t batch_max = 20;
const std::vector<std::uint32_t> unlimited(64, 1U << 20);

std::vector<std::uint32_t> random_batches(splitmix64& random, std::size_t world) {
  std::vector<std::uint32_t> batches(world);
  for (auto& batch : batches)
    batch = 1 + random.below(batch_max);
  return batches;
}

/// Items of an epoch: numbered samples, or a stream's shards.
struct data {
  std::vector<std::uint64_t> lengths;
  bool is_stream = false;
  std::uint64_t items() const { return std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}); }
  std::vector<item_range> waiting() const {
    std::vector<item_range> ranges;
    for (std::size_t shard = 0; shard < lengths.size(); ++shard)
      if (lengths[shard] > 0)
        ranges.push_back({shard, 0, lengths[shard]});
    return ranges;
  }
};

data random_data(splitmix64& random, std::uint64_t items_max) {
  if (random.below(2) == 0)
    return {{1 + random.below(static_cast<std::uint32_t>(items_max))}, false};
  data made{{1 + random.below(40)}, true};
  for (auto shards = random.below(12); shards > 0; --shards)
    made.lengths.push_back(random.below(4) == 0 ? 0 : random.below(static_cast<std::uint32_t>(items_max / 8 + 1)));
  return made;
}

lease_options random_options(splitmix64& random, std::size_t world, const data& of) {
  lease_options options{.ahead = random.below(5) * random.below(5), // loader workers, batches ahead in each
                        .lanes = std::vector<std::uint32_t>(world),
                        .whole_shards = of.is_stream};
  for (auto& lanes : options.lanes)
    lanes = 1 + random.below(4);
  return options;
}

/// What members' data loaders do with what is leased to them.
class loaders {
public:
  explicit loaders(std::size_t world) : next_(world), fetched_(world) {}

  /// As many pieces as a loader happens to have room for; all where a batch needs them.
  void fetch(const leases& from, std::size_t member, std::uint64_t pieces) {
    for (; pieces > 0 && next_[member] < from.pieces_leased(member); --pieces, ++next_[member])
      for (const auto& range : from.piece(member, next_[member]))
        for (auto item = range.first; item < range.last; ++item)
          fetched_[member].emplace_back(range.shard, item);
  }

  std::size_t room(std::size_t member) const { return fetched_[member].size(); }

  std::pair<std::uint64_t, std::uint64_t> take(std::size_t member) {
    const auto item = fetched_[member].front();
    fetched_[member].pop_front();
    return item;
  }

private:
  std::vector<std::uint64_t> next_;
  std::vector<std::deque<std::pair<std::uint64_t, std::uint64_t>>> fetched_;
};

std::uint64_t sum(const std::vector<std::uint64_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
}

/// Leases and uses a step's items.
std::vector<std::uint64_t> use_next(leases& of, std::span<const std::uint32_t> batches,
                                    std::span<const std::uint32_t> limits) {
  of.lease(batches);
  auto shares = of.next_shares(batches, limits);
  of.use(shares);
  return shares;
}

/// Each member's batch of a step comes from what it has fetched, in the order of fetching. Counts what is used.
void train(const std::vector<std::uint64_t>& shares, const leases& behind_lease, loaders& all, splitmix64& random,
           std::vector<std::vector<int>>& counts) {
  for (std::size_t member = 0; member < shares.size(); ++member) {
    all.fetch(behind_lease, member, random.below(6));
    while (all.room(member) < shares[member])
      all.fetch(behind_lease, member, 1);
    for (const auto& range : behind_lease.next_items(member, shares[member]))
      for (auto item = range.first; item < range.last; ++item) {
        ASSERT_EQ(all.take(member), std::pair(range.shard, item));
        ++counts[range.shard][item];
      }
  }
}

bool all_once(const std::vector<std::vector<int>>& counts) {
  return std::ranges::all_of(counts, [](const std::vector<int>& shard) {
    return std::ranges::all_of(shard, [](int times) { return times == 1; });
  });
}

TEST(Leases, UseEachItemOnceAsFetchedUnderAnyPlanLookAheadResumeAndChangeAtEveryStep) {
  splitmix64 random(41);
  int in_force_at_once = 0;
  int resumed = 0;
  for (int plan = 0; plan < 1000; ++plan) {
    const std::size_t world = 1 + random.below(64);
    const auto of = random_data(random, 20 * batch_max * world);
    const auto options = random_options(random, world, of);
    leases dealer(options, of.waiting());
    auto other = dealer; // goes on from states
    loaders all(world);
    std::vector<std::vector<int>> counts;
    for (const auto length : of.lengths)
      counts.emplace_back(length, 0);
    auto batches = random_batches(random, world);
    std::vector<std::uint32_t> limits(world);
    for (auto& limit : limits)
      limit = batch_max + random.below(batch_max);
    const bool at_every_step = random.below(2) == 0;
    while (dealer.left() > 0) {
      if (at_every_step || random.below(4) == 0)
        batches = random_batches(random, world);
      const auto left = dealer.left();
      dealer.lease(batches);
      const auto used = dealer.next_shares(batches, limits);
      train(used, dealer, all, random, counts);
      dealer.use(used);
      ASSERT_FALSE(HasFatalFailure()) << "plan " << plan;
      ASSERT_GT(sum(used), 0U);
      ASSERT_EQ(dealer.left(), left - sum(used));
      if (left >= 2ULL * (1 + options.ahead) * batch_max * world) {
        ASSERT_TRUE(std::ranges::equal(used, batches)) << "batch sizes hold from the next step, plan " << plan;
        ++in_force_at_once;
      }
      for (std::size_t member = 0; member < world; ++member)
        ASSERT_LE(used[member], limits[member]);
      ASSERT_LE(sum(used), std::accumulate(batches.begin(), batches.end(), 0U)) << "plan " << plan;
      ASSERT_EQ(use_next(other, batches, limits), used);
      if (random.below(4) == 0) {
        const auto state = other.save();
        other = leases(options, {});
        ASSERT_TRUE(other.restore(state, of.lengths, dealer.left())) << "plan " << plan;
        ASSERT_EQ(other.save(), dealer.save()) << "plan " << plan;
        ++resumed;
      }
    }
    ASSERT_TRUE(all_once(counts)) << "plan " << plan;
  }
  EXPECT_GT(in_force_at_once, 1000);
  EXPECT_GT(resumed, 1000);
}

TEST(Leases, GiveTheSameItemsHoweverFarMembersFetchAheadWhereNoBatchSizeChanges) {
  splitmix64 random(42);
  for (int plan = 0; plan < 200; ++plan) {
    const std::size_t world = 1 + random.below(8);
    const auto items = 1 + random.below(1000);
    const auto batches = random_batches(random, world);
    const std::vector<std::uint32_t> lanes(world, 1);
    leases deep({.ahead = 1 + random.below(12), .lanes = lanes}, {{0, 0, items}});
    std::uint64_t next = 0;
    while (deep.left() > 0) {
      deep.lease(batches);
      const auto used = deep.next_shares(batches, unlimited);
      if (items - next >= std::accumulate(batches.begin(), batches.end(), 0U)) {
        ASSERT_TRUE(std::ranges::equal(used, batches));
      }
      for (std::size_t member = 0; member < world; ++member)
        for (const auto& range : deep.next_items(member, used[member])) {
          ASSERT_EQ(range.first, next) << "plan " << plan;
          next = range.last;
        }
      deep.use(used);
    }
    ASSERT_EQ(next, items);
  }
}

TEST(Leases, MakePiecesBatchesAgainSoonAfterAChange) {
  leases dealer({.ahead = 4, .lanes = {1, 1}}, {{0, 0, 100000}});
  std::vector<std::uint32_t> batches{64, 64};
  use_next(dealer, batches, unlimited);
  batches = {96, 32};
  for (int step = 0; step < 12; ++step)
    EXPECT_EQ(use_next(dealer, batches, unlimited), (std::vector<std::uint64_t>{96, 32}));
  dealer.lease(batches);
  for (std::size_t member = 0; member < 2; ++member)
    for (auto piece = dealer.pieces_used(member); piece < dealer.pieces_leased(member); ++piece) {
      const auto ranges = dealer.piece(member, piece);
      ASSERT_EQ(ranges.size(), 1U);
      EXPECT_EQ(ranges[0].size(), batches[member]);
    }
}

/// Shares of all steps until the end.
std::vector<std::vector<std::uint64_t>> to_the_end(leases dealer, const std::vector<std::uint32_t>& batches,
                                                   const std::vector<std::uint32_t>& limits) {
  std::vector<std::vector<std::uint64_t>> steps;
  while (dealer.left() > 0)
    steps.push_back(use_next(dealer, batches, limits));
  return steps;
}

TEST(Leases, KeepTheGlobalBatchWhereAChangeCameWhenEverythingWasLeased) {
  leases dealer({.ahead = 7, .lanes = {1, 1}}, {{0, 0, 1024}});
  use_next(dealer, std::vector<std::uint32_t>{64, 64}, unlimited);
  // Each has 448 left, which the second one would need 14 steps for.
  EXPECT_EQ(to_the_end(dealer, {96, 32}, unlimited), std::vector(7, std::vector<std::uint64_t>{64, 64}));
  // The second one cannot hold 64 any more.
  const auto limited = to_the_end(dealer, {96, 32}, {96, 32});
  EXPECT_EQ(limited.size(), 14U);
  EXPECT_EQ(limited.front(), (std::vector<std::uint64_t>{96, 32}));
}

TEST(Leases, DropOnlyWhatFillsNoStepWhereAChangeCameWhenEverythingWasLeased) {
  leases dealer({.ahead = 7, .lanes = {1, 1}, .drop_last = true}, {{0, 0, 1024}});
  dealer.lease(std::vector<std::uint32_t>{64, 64});
  const std::vector<std::uint32_t> batches{75, 25};
  int steps = 0;
  for (; dealer.left() >= 100; ++steps)
    ASSERT_EQ(sum(use_next(dealer, batches, unlimited)), 100U) << steps;
  EXPECT_EQ(steps, 10);
}

TEST(Leases, GiveOthersTheItemsOfMembersThatHaveGone) {
  splitmix64 random(43);
  for (int plan = 0; plan < 200; ++plan) {
    const std::size_t world = 2 + random.below(6);
    const auto of = random_data(random, 2000);
    leases dealer(random_options(random, world, of), of.waiting());
    std::vector<std::vector<int>> counts;
    for (const auto length : of.lengths)
      counts.emplace_back(length, 0);
    auto batches = random_batches(random, world);
    while (dealer.left() > 0) {
      dealer.lease(batches);
      const auto used = dealer.next_shares(batches, unlimited);
      for (std::size_t member = 0; member < world; ++member)
        for (const auto& range : dealer.next_items(member, used[member]))
          for (auto item = range.first; item < range.last; ++item)
            ++counts[range.shard][item];
      dealer.use(used);
      if (random.below(5) > 0)
        continue;
      batches = random_batches(random, world);
      std::vector<bool> present(world);
      for (std::size_t member = 0; member < world; ++member)
        present[member] = random.below(2) == 0;
      present[random.below(static_cast<std::uint32_t>(world))] = true;
      for (std::size_t member = 0; member < world; ++member)
        batches[member] *= present[member] ? 1 : 0;
      dealer.give_back(present);
    }
    ASSERT_TRUE(all_once(counts)) << "plan " << plan;
  }
}

TEST(Leases, AreLeasedAnewWhereOtherMembersGoOn) {
  const data of{{17, 0, 5, 40, 1, 23, 30}, true};
  leases before({.ahead = 3, .lanes = {2, 1, 4}, .whole_shards = true}, of.waiting());
  const std::vector<std::uint32_t> batches{7, 3, 5};
  for (int step = 0; step < 3; ++step)
    use_next(before, batches, unlimited);
  leases after({.ahead = 1, .lanes = {1, 3}, .whole_shards = true}, {});
  ASSERT_TRUE(after.restore(before.save(), of.lengths, before.left()));
  EXPECT_EQ(after.left(), before.left());
  std::uint64_t used = 0;
  while (after.left() > 0)
    used += sum(use_next(after, std::vector<std::uint32_t>{4, 9}, unlimited));
  EXPECT_EQ(used, before.left());
}

TEST(Leases, RefuseStatesThatMakeNoSense) {
  const data of{{17, 0, 5, 40}, true};
  const lease_options options{.ahead = 2, .lanes = {2, 1}, .whole_shards = true};
  leases good(options, of.waiting());
  const std::vector<std::uint32_t> batches{7, 3};
  use_next(good, batches, unlimited);
  good.lease(batches);
  const auto words = good.save();
  splitmix64 random(44);
  leases read(options, of.waiting());
  const auto untouched = read.save();
  EXPECT_FALSE(read.restore({}, of.lengths, good.left()));
  EXPECT_FALSE(read.restore(words, of.lengths, good.left() - 1));
  EXPECT_FALSE(read.restore(words, std::vector<std::uint64_t>{17, 0, 5, 39}, good.left()));
  for (std::size_t count = 0; count < words.size(); ++count)
    EXPECT_FALSE(read.restore(std::span(words).first(count), of.lengths, good.left())) << count;
  EXPECT_EQ(read.save(), untouched);
  for (int trial = 0; trial < 10000; ++trial) {
    auto damaged = words;
    damaged[random.below(static_cast<std::uint32_t>(damaged.size()))] =
        random.below(2) == 0 ? random.below(50) : random.next();
    if (!read.restore(damaged, of.lengths, good.left()))
      continue;
    while (read.left() > 0) { // whatever it deals, it ends
      ASSERT_GT(sum(use_next(read, batches, unlimited)), 0U);
    }
  }
}

} // namespace
} // namespace dynamix::client
