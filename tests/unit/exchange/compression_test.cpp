#include "exchange/compression.hpp"
#include "exchange/either_group.hpp"
#include "exchange/form_choice.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/exchange/reference_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

/// Compressed sums against slow ones: of float32 in the order of ranks, and of bits by schoolbook addition.

namespace dynamix::exchange {
namespace {

using namespace reference;

/// All members' gradients, each as it would be summed densely.
using gradients = std::vector<std::vector<float>>;

std::vector<float> sum_by_rank(const gradients& all) {
  auto total = all[0];
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < total.size(); ++i)
      total[i] += all[rank][i];
  return total;
}

std::vector<float> sum_exactly_slowly(const gradients& all) {
  std::vector<float> total(all[0].size());
  std::vector<float> column(all.size());
  for (std::size_t i = 0; i < total.size(); ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      column[rank] = all[rank][i];
    if (std::ranges::count(column, 0.0F) == static_cast<std::ptrdiff_t>(column.size()))
      continue;
    total[i] = slow_exact_sum(column);
  }
  return total;
}

struct pattern {
  std::string name;
  drawing value;
  std::size_t items = 2000;
  std::size_t item_floats = 16;
  double touched = 0.2; ///< share of the items on each rank
};

const std::vector<pattern>& patterns() {
  static const std::vector<pattern> all = {
      {"normal", normal},
      {"rows of 32", normal, 1500, 32, 0.3},
      {"items of one float", normal, 40'000, 1, 0.05},
      {"odd rows", normal, 1111, 21, 0.5},
      {"heavy tails", heavy_tailed},
      {"subnormal", subnormal},
      {"any bits", any_bits},
      {"signed zeros", signed_zeros_and_few},
      {"NaN and infinities", with_specials},
      {"overflow", near_the_largest},
      {"nothing", normal, 2000, 16, 0},
      {"few", normal, 2000, 16, 0.01},
      {"dense", normal, 2000, 16, 1},
      {"tiny", normal, 3, 5, 0.5},
  };
  return all;
}

/// Rank `rank`'s gradient and the items in it. Of a step: the share of touched items differs a little each time.
std::vector<float> draw(const pattern& of, std::uint32_t rank, std::uint64_t step, std::vector<std::uint32_t>& items) {
  storage::splitmix64 random(step * 1000 + rank);
  std::vector<float> values(of.items * of.item_floats);
  items.clear();
  for (std::uint32_t item = 0; item < of.items; ++item) {
    if (random.below(1 << 20) >= static_cast<std::uint32_t>(of.touched * (1 + 0.02 * (step % 3)) * (1 << 20)))
      continue;
    items.push_back(item);
    for (std::size_t i = 0; i < of.item_floats; ++i)
      values[item * of.item_floats + i] = of.value(random);
  }
  return values;
}

std::size_t count_different(std::span<const float> some, std::span<const float> others) {
  std::size_t different = some.size() == others.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(some.size(), others.size()); ++i)
    different += bits_of(some[i]) != bits_of(others[i]) ? 1 : 0;
  return different;
}

void fill(bucket& filled, const std::vector<float>& values, const std::vector<std::uint32_t>& items) {
  const auto into = std::get<std::span<float>>(filled.gradients());
  std::ranges::copy(values, into.begin());
  if (auto* touched = filled.touched())
    *touched = items;
}

/// Sums a pattern on `size` ranks for some steps; returns what compressing came to on rank 0.
template <typename Joining = decltype(&join_group)>
compression_counts run_pattern(const pattern& of, form how, std::uint32_t size, std::uint64_t seed, std::uint64_t steps,
                               Joining joining = &join_group) {
  struct drawn_step {
    gradients all;
    std::vector<std::vector<std::uint32_t>> items;
    std::vector<float> expected;
  };
  std::vector<drawn_step> drawn(steps);
  for (std::uint64_t step = 0; step < steps; ++step) {
    drawn[step].items.resize(size);
    for (std::uint32_t rank = 0; rank < size; ++rank)
      drawn[step].all.push_back(draw(of, rank, seed + step, drawn[step].items[rank]));
    drawn[step].expected = how == form::lhc ? sum_exactly_slowly(drawn[step].all) : sum_by_rank(drawn[step].all);
  }
  std::vector<compression_counts> counts(size);
  const auto body = [&](std::uint32_t rank, std::unique_ptr<group>& joined) {
    joined = compress(std::move(joined), how, counts[rank]);
    const auto summed = joined->make_sparse_bucket(of.items, of.item_floats, 1);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto& [all, items, expected] = drawn[step];
      fill(*summed, all[rank], items[rank]);
      summed->sums()[0] = rank + 0.1;
      summed->start();
      summed->wait();
      const auto got = std::get<std::span<float>>(summed->gradients());
      const bool compressed = summed->touched() != nullptr; // small ones are left to the ring and its order
      EXPECT_EQ(compressed ? count_different(got, expected) : 0, 0U) << of.name << ", step " << step;
      EXPECT_NEAR(summed->sums()[0], size * (size - 1) / 2.0 + 0.1 * size, 1e-12);
    }
  };
  run_ranks(size, body, joining);
  for (const auto& each : counts)
    EXPECT_EQ(each.items, counts[0].items);
  return counts[0];
}

class Compression : public testing::TestWithParam<form> {};

TEST_P(Compression, ChangesNoBitOfTheSumItStandsFor) {
  for (const auto& each : patterns())
    for (const std::uint32_t size : {2U, 3U, 5U})
      run_pattern(each, GetParam(), size, 7 * size, 3);
}

TEST_P(Compression, ChangesNoBitOfASumThatServersMake) {
  for (const auto& each : patterns())
    for (const auto& shares : std::vector<std::vector<double>>{{0.5, 0.3, 0.2}, {0.1, 0, 0.7, 0, 0.2}}) {
      const auto size = static_cast<std::uint32_t>(shares.size());
      run_pattern(each, GetParam(), size, 7 * size, 3, by_shares(shares));
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, Compression, testing::Values(form::union_of_items, form::gather, form::lhc),
                         [](const auto& of) {
                           return of.param == form::gather ? "Gather" : of.param == form::lhc ? "Sketches" : "Union";
                         });

TEST(Compression, SketchesHoldWhatFitsTheirScaleAndSendTheRestAsItIs) {
  const auto ordinary = run_pattern(patterns()[0], form::lhc, 3, 1, 6);
  EXPECT_EQ(ordinary.sums, 6U);
  EXPECT_EQ(ordinary.unsketched_sums, 1U) << "the first, of which nothing was known before";
  EXPECT_EQ(ordinary.unfit, 0U);
  EXPECT_EQ(ordinary.unpeeled, 0U);
  EXPECT_GT(ordinary.sketched, ordinary.items / 2);
  const auto heavy = run_pattern(patterns()[4], form::lhc, 3, 1, 6);
  EXPECT_GT(heavy.unfit, 0U) << "2^200 does not fit into 62 bits";
}

TEST(Compression, LeavesPlainBucketsAndSmallOnesToTheRing) {
  run_ranks(2, [](std::uint32_t, std::unique_ptr<group>& joined) {
    compression_counts counts;
    joined = compress(std::move(joined), form::lhc, counts);
    EXPECT_EQ(joined->make_bucket(element::float32, 100'000, 1)->touched(), nullptr);
    EXPECT_EQ(joined->make_sparse_bucket(100, 8, 1)->touched(), nullptr);
    EXPECT_NE(joined->make_sparse_bucket(10'000, 8, 1)->touched(), nullptr);
  });
}

TEST(Compression, EndsThroughServersWhenAMemberMissesTheSecondRound) {
  for (const auto how : {form::union_of_items, form::lhc}) {
    const auto body = [&](std::uint32_t rank, std::unique_ptr<group>& joined) {
      compression_counts counts;
      const auto peers = compress(std::move(joined), how, counts);
      joined = make_silent_group(1);
      const auto summed = peers->make_sparse_bucket(2000, 16, 1);
      std::vector<std::uint32_t> items;
      fill(*summed, draw({"few", normal}, rank, 1, items), items);
      summed->start();
      if (rank == 2) // before the rows that the first round has agreed on
        throw std::runtime_error("gone");
      EXPECT_THROW(summed->wait(), error);
    };
    EXPECT_THROW(run_ranks(3, body, by_shares({0.5, 0.3, 0.2})), std::runtime_error);
  }
}

TEST(Compression, OfNothingOrOfOneMemberIsTheGroupItself) {
  compression_counts counts;
  auto alone = make_silent_group(1);
  const auto* before = alone.get();
  alone = compress(std::move(alone), form::lhc, counts);
  EXPECT_EQ(alone.get(), before);
  auto two = make_silent_group(2);
  before = two.get();
  two = compress(std::move(two), form::none, counts);
  EXPECT_EQ(two.get(), before);
}

TEST(Compression, FollowsAUnionThatGrowsManyTimesOver) {
  run_ranks(2, [](std::uint32_t rank, std::unique_ptr<group>& joined) {
    compression_counts counts;
    joined = compress(std::move(joined), form::lhc, counts);
    const auto summed = joined->make_sparse_bucket(4000, 8, 0);
    std::vector<std::uint32_t> items;
    for (const double share : {0.1, 0.9, 0.1, 0.9}) {
      const pattern growing{"growing", normal, 4000, 8, share};
      const auto others = draw(growing, 1 - rank, 1, items);
      const auto values = draw(growing, rank, 1, items);
      fill(*summed, values, items);
      summed->start();
      summed->wait();
      EXPECT_EQ(count_different(std::get<std::span<float>>(summed->gradients()), sum_exactly_slowly({values, others})),
                0U);
    }
    EXPECT_GT(counts.unpeeled, 0U);
  });
}

/// Some forms add in another order: small whole numbers have one sum.
float whole_number(storage::splitmix64& random) {
  return static_cast<float>(random.below(200)) - 100;
}

TEST(Compression, MeasuresTheFormsAndSumsTheSameWithEach) {
  const auto few = run_pattern({"few", whole_number, 20'000, 16, 0.002}, form::automatic, 3, 1, 60);
  EXPECT_EQ(few.sums, 60U);
  EXPECT_EQ(few.dense_sums + few.union_sums + few.gather_sums + few.lhc_sums, 60U);
  EXPECT_GE(few.union_sums, 8U) << "with which it begins";
  EXPECT_GT(few.gather_sums + few.lhc_sums + few.dense_sums, 0U) << "what could be faster is tried";
  const auto dense = run_pattern({"dense", whole_number, 2000, 16, 1}, form::automatic, 2, 1, 30);
  EXPECT_EQ(dense.items, 30U * 2000);
}

TEST(Compression, ChoosesBetweenRingAndServersForEachBucket) {
  const auto promising = [](double servers_time) {
    return [servers_time](const place& own, store& meeting, const interruption& stop) {
      auto ring = join_ring(own, meeting, stop);
      auto& members = *ring;
      summing_plan plan; // made up
      plan.servers.seconds_per_byte = servers_time;
      plan.servers.ring_seconds_per_byte = 1;
      return choose_ways(sum_by_servers(std::move(ring), {0.5, 0.3, 0.2}, stop), members, plan, {});
    };
  };
  const pattern few{"few", whole_number, 20'000, 16, 0.002};
  const auto promised = run_pattern(few, form::automatic, 3, 1, 60, promising(0.01));
  EXPECT_GE(promised.server_sums, 8U);
  const pattern dense{"dense", whole_number, 2000, 16, 1};
  const auto whole = run_pattern(dense, form::automatic, 3, 1, 60, promising(0.01));
  EXPECT_GE(whole.server_sums, 8U);
  EXPECT_GE(whole.dense_sums, 8U) << "the bytes of all rows without an index are the fewest";
  const auto measured =
      run_pattern(few, form::automatic, 3, 1, 30, [](const place& own, store& meeting, const interruption& stop) {
        return join(own, meeting, stop, summing::automatic);
      });
  EXPECT_EQ(measured.dense_sums + measured.union_sums + measured.gather_sums + measured.lhc_sums, 30U);
}

form_load load_of(double density) {
  const auto together = static_cast<std::size_t>(density * 100'000);
  return {.members = 4, .items = 100'000, .item_floats = 32, .longest = together / 3, .together = together};
}

TEST(FormChoice, TriesWhatCouldWinAndKeepsWhatIsFastest) {
  form_choice choice;
  EXPECT_EQ(choice.now(), route{form::union_of_items});
  EXPECT_FALSE(choice.predict({form::gather}, load_of(0.01)));
  // A link of 1 GB per second; sketches cost ten times as much a byte, for the CPU.
  const auto seconds = [&](route by, const form_load& load) {
    return 1e-9 * bytes_of(by, load) * (by.how == form::lhc ? 10 : 1);
  };
  std::vector<form> used;
  for (int look = 0; look < 10; ++look) {
    used.push_back(choice.now().how);
    choice.take(seconds(choice.now(), load_of(0.01)), load_of(0.01));
  }
  const auto best = bytes_of({form::gather}, load_of(0.01)) < bytes_of({form::union_of_items}, load_of(0.01))
                        ? form::gather
                        : form::union_of_items;
  EXPECT_EQ(choice.now(), route{best});
  EXPECT_EQ(std::ranges::count(used, form::none), 0) << "all bytes at the same rate cannot win";
  EXPECT_LE(std::ranges::count(used, form::lhc), 1);
  for (int look = 0; look < 10; ++look)
    choice.take(seconds(choice.now(), load_of(1)), load_of(1));
  EXPECT_NE(choice.now().how, form::lhc);
  EXPECT_LE(bytes_of(choice.now(), load_of(1)), 1.1 * bytes_of({form::none}, load_of(1)))
      << "nothing is sparse any more";
}

TEST(FormChoice, GoesThroughServersWhereTheyAreFasterAndBackWhereTheyAreNot) {
  auto load = load_of(0.01);
  load.longest = load.together; // all bring the same: no use in gathering
  load.servers_time = 2.0 / 3;
  EXPECT_DOUBLE_EQ(bytes_of({form::none, true}, load), bytes_of({form::none}, load) * 2 / 3);
  EXPECT_EQ(form_choice({.by_servers = true}).now(), (route{form::union_of_items, true}));
  EXPECT_EQ(name_of({form::lhc, true}), "lhc through servers");
  for (const double kept : {1.0, 2.0}) { // servers take as long as they promise, or twice as long
    form_choice choice;
    std::size_t through_servers = 0;
    for (int look = 0; look < 20; ++look) {
      const auto by = choice.now();
      through_servers += by.by_servers ? 1 : 0;
      choice.take(1e-9 * bytes_of(by, load) * (by.by_servers ? kept : 1) * (by.how == form::lhc ? 3 : 1), load);
    }
    EXPECT_EQ(choice.now(), (route{form::union_of_items, kept == 1})) << kept;
    EXPECT_GE(through_servers, 1U);
    if (kept > 1) {
      EXPECT_LE(through_servers, 3U) << "each form is tried once at most";
    }
  }
  load.servers_time = 0;
  form_choice in_ring;
  for (int look = 0; look < 20; ++look)
    EXPECT_FALSE(in_ring.take(1e-9 * bytes_of(in_ring.now(), load), load).by_servers);
}

TEST(FormChoice, StaysWhereAnotherFormWinsByLittleAndForgetsWhatIsOutOfDate) {
  form_choice choice;
  const auto load = load_of(0.01);
  const double slow = 1e-6 * bytes_of({form::union_of_items}, load);
  for (int look = 0; look < 20; ++look) // each form takes as long
    choice.take(slow, load);
  const auto settled = choice.now();
  EXPECT_EQ(choice.take(1.05 * slow, load), settled);
  const route other{settled.how == form::gather ? form::union_of_items : form::gather};
  ASSERT_TRUE(choice.predict(other, load));
  choice.take(100 * slow, load);
  const auto hoped = choice.predict(other, load);
  ASSERT_TRUE(hoped);
  EXPECT_GT(*hoped, 10 * slow) << "what was measured of the others does not hold any more";
}

TEST(FormChoice, TriesOtherFormsEverMoreRarelyWhereTimesChangeAllTheTime) {
  form_choice choice;
  const auto load = load_of(0.01);
  int changes = 0;
  for (int look = 0; look < 2000; ++look) { // what was measured is out of date each time, and gather disappoints
    const auto by = choice.now();
    const double slowness = (by.how == form::gather ? 10 : 1) * (look % 4 < 2 ? 1 : 9);
    changes += choice.take(1e-9 * slowness * bytes_of(by, load), load) != by ? 1 : 0;
  }
  EXPECT_GT(changes, 4);
  EXPECT_LE(changes, 44) << "2 + 4 + ... + 1024 looks pass between eleven rounds of at most four changes";
}

} // namespace
} // namespace dynamix::exchange
