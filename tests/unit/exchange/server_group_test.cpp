#include "exchange/compression.hpp"
#include "exchange/float_sum.hpp"
#include "exchange/link_rates.hpp"
#include "exchange/server_group.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

/// Sums through servers against one thread that adds up in the order of ranks.

namespace dynamix::exchange {
namespace {

using std::chrono::milliseconds;

const std::vector<std::vector<double>>& share_lists() {
  static const std::vector<std::vector<double>> all = {
      {1, 1}, {0, 1}, {1, 0, 0}, {1, 1, 1}, {0.5, 0.3, 0.2}, {1, 1, 0, 1}, {0, 0, 0, 1}, {0.1, 0, 0.7, 0, 0.2}};
  return all;
}

/// Numbers of very different sizes, so that another order of additions gives other bits.
template <typename Scalar>
std::vector<Scalar> draw(std::size_t count, std::uint64_t seed) {
  storage::splitmix64 random(seed);
  std::vector<Scalar> drawn(count);
  for (auto& value : drawn)
    value = static_cast<Scalar>(
        std::ldexp(static_cast<double>(random.next() >> 11U) * 0x1p-53 - 0.5, static_cast<int>(random.below(20))));
  return drawn;
}

template <typename Scalar>
void expect_sums_in_rank_order(group& peers, std::uint32_t rank, std::size_t count, std::uint64_t seed) {
  const auto summed = peers.make_bucket(sizeof(Scalar) == 4 ? element::float32 : element::float64, count, 2);
  const auto values = [&] { return std::get<std::span<Scalar>>(summed->gradients()); };
  for (std::uint64_t step = 0; step < 3; ++step) { // nothing may be left over from a step before
    auto expected = draw<Scalar>(count, seed + 100 * step);
    for (std::uint32_t other = 1; other < peers.size(); ++other) {
      const auto part = draw<Scalar>(count, seed + 100 * step + other);
      for (std::size_t i = 0; i < count; ++i)
        expected[i] += part[i];
    }
    std::ranges::copy(draw<Scalar>(count, seed + 100 * step + rank), values().begin());
    summed->sums()[0] = rank == 0 ? 0x1p60 : rank == 1 ? -0x1p60 : 1;
    summed->sums()[1] = 0.1;
    summed->start();
    summed->wait();
    EXPECT_TRUE(std::ranges::equal(values(), expected)) << count << " of " << peers.size() << " ranks";
    EXPECT_EQ(summed->sums()[0], peers.size() - 2);
    EXPECT_EQ(summed->sums()[1], static_cast<double>(static_cast<long double>(0.1) * peers.size()));
  }
}

TEST(ServerGroup, AddsInTheOrderOfRanksBitForBit) {
  for (const auto& shares : share_lists())
    run_ranks(
        static_cast<std::uint32_t>(shares.size()),
        [](std::uint32_t rank, group& peers) {
          for (const std::size_t count : {0U, 1U, 15U, 100U, 4097U, 65'536U, 300'007U}) {
            expect_sums_in_rank_order<float>(peers, rank, count, count);
            if (count < 100'000)
              expect_sums_in_rank_order<double>(peers, rank, count, count);
          }
        },
        by_shares(shares));
}

/// Runs `body` on the first `workers` ranks; the others only serve, `join` and `serve` as they are given. All leave
/// with the word 7. The first exception is thrown again.
template <typename Body, typename Join, typename Serve>
void run_served(std::uint32_t workers, std::uint32_t servers, Body body, Join join_as, Serve serve_as) {
  memory_store meeting;
  std::vector<std::exception_ptr> errors(workers + servers);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < errors.size(); ++rank)
      threads.emplace_back([&, rank] {
        const interruption never;
        place own{.rank = rank, .members = all_ranks(workers), .store_prefix = "served"};
        for (auto server = workers; server < errors.size(); ++server)
          own.servers.push_back(server);
        try {
          if (rank >= workers) {
            EXPECT_EQ(serve_as(own, meeting, never), 7U);
            return;
          }
          const std::unique_ptr<group> peers = join_as(own, meeting, never);
          EXPECT_EQ(peers->size(), workers);
          EXPECT_EQ(peers->position(), rank);
          body(rank, *peers);
          peers->leave(7);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error)
      std::rethrow_exception(error);
}

/// All of the place's ranks in one ring.
std::unique_ptr<ring_group> join_all(place own, store& meeting, const interruption& stop) {
  own.members.insert(own.members.end(), own.servers.begin(), own.servers.end());
  return join_ring(own, meeting, stop);
}

std::unique_ptr<group> join_workers(place own, store& meeting, const interruption& stop) {
  own.store_prefix += "/workers";
  return join_ring(own, meeting, stop);
}

TEST(ServerGroup, AddsInTheOrderOfRanksThroughHostsThatBringNothing) {
  for (const auto& shares : std::vector<std::vector<double>>{
           {0, 0, 1}, {1, 1, 0}, {0, 0, 0, 1, 1}, {0.3, 0.2, 0.1, 0.4}, {1, 0, 1, 0, 1, 0, 1}}) {
    const std::uint32_t workers = shares.size() < 4 ? 2 : 3;
    run_served(
        workers, static_cast<std::uint32_t>(shares.size()) - workers,
        [](std::uint32_t rank, group& peers) {
          for (const std::size_t count : {0U, 1U, 100U, 65'536U, 300'007U}) {
            expect_sums_in_rank_order<float>(peers, rank, count, count);
            if (count < 100'000)
              expect_sums_in_rank_order<double>(peers, rank, count, count);
          }
          const auto bits = std::make_shared<std::vector<std::uint64_t>>(1000, std::uint64_t{1} << rank);
          peers.combine(bits, combining::bitwise_or)->wait();
          EXPECT_THAT(*bits, testing::Each((1U << peers.size()) - 1));
          const std::int64_t row[] = {rank};
          EXPECT_EQ(peers.all_gather(row)->wait().size(), peers.size());
        },
        [&](const place& own, store& meeting, const interruption& stop) {
          auto all = join_all(own, meeting, stop);
          return sum_by_servers(std::move(all), shares, stop, join_workers(own, meeting, stop));
        },
        [&](const place& own, store& meeting, const interruption& stop) {
          const auto all = join_all(own, meeting, stop);
          const auto word = serve_members(*all, workers, shares, stop);
          all->leave();
          return word;
        });
  }
}

/// Both kinds of sums over memory of the caller's, against one thread that has all members' parts.
void expect_float_sums(group& peers, std::uint32_t rank) {
  for (const std::size_t count : {1U, 15U, 4097U, 100'003U}) {
    std::vector<float> parts;
    for (std::uint32_t member = 0; member < peers.size(); ++member) {
      const auto part = draw<float>(count, 7 * count + member);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    for (const auto how : {float_sum::in_order, float_sum::exact}) {
      std::vector<float> expected(count);
      (how == float_sum::exact ? sum_exactly : sum_in_order)(parts, expected);
      const auto own = std::make_shared<std::vector<float>>(draw<float>(count, 7 * count + rank));
      peers.sum(*own, own, how)->wait();
      EXPECT_EQ(*own, expected) << count << " of " << peers.size() << " ranks";
    }
  }
}

TEST(ServerGroup, SumsFloatsInOrderAndExactlyAsARingDoes) {
  const auto body = [](std::uint32_t rank, group& peers) { expect_float_sums(peers, rank); };
  for (const std::uint32_t size : {2U, 3U, 5U})
    run_ranks(size, body);
  for (const auto& shares : share_lists())
    run_ranks(static_cast<std::uint32_t>(shares.size()), body, by_shares(shares));
  const std::vector<double> shares = {0.2, 0, 0.1, 0.4, 0.3};
  run_served(
      3, 2, body,
      [&](const place& own, store& meeting, const interruption& stop) {
        auto all = join_all(own, meeting, stop);
        return sum_by_servers(std::move(all), shares, stop, join_workers(own, meeting, stop));
      },
      [&](const place& own, store& meeting, const interruption& stop) {
        const auto all = join_all(own, meeting, stop);
        const auto word = serve_members(*all, 3, shares, stop);
        all->leave();
        return word;
      });
}

TEST(ServerGroup, PlansForHostsThatBringNothingAndTellsThemToLeave) {
  for (const auto how : {summing::parameter_server, summing::automatic, summing::ring})
    for (const std::uint32_t workers : {1U, 3U}) {
      std::vector<summing_plan> plans(workers + 2);
      run_served(
          workers, 2,
          [](std::uint32_t rank, group& peers) {
            const auto summed = peers.make_bucket(element::float32, 0, 1);
            summed->sums()[0] = rank + 1;
            summed->start();
            summed->wait();
            EXPECT_EQ(summed->sums()[0], peers.size() * (peers.size() + 1) / 2.0);
          },
          [&](const place& own, store& meeting, const interruption& stop) {
            return join(own, meeting, stop, how, &plans[own.rank]);
          },
          [&](const place& own, store& meeting, const interruption& stop) {
            return serve(own, meeting, stop, how, [&](const summing_plan& made) { plans[own.rank] = made; });
          });
      for (const auto& plan : plans) {
        EXPECT_EQ(plan.link_rates.size(), workers == 1 ? 0U : 5U);
        EXPECT_EQ(plan.servers, plans[0].servers);
        EXPECT_EQ(plan.by_servers, plans[0].by_servers);
      }
      if (workers > 1 && how != summing::automatic) {
        EXPECT_EQ(plans[0].by_servers, how == summing::parameter_server);
      }
    }
}

/// Two workers and a host that only serves.
struct served_pair {
  served_pair() {
    std::jthread second([this] { workers[1] = join_as(1); });
    serving = std::jthread([this] {
      try {
        const auto all = join_all(place_of(2), meeting, stop);
        serve_members(*all, 2, {0, 0, 1}, stop);
      } catch (const error& problem) {
        reason = problem.what();
      }
    });
    workers[0] = join_as(0);
  }
  static place place_of(std::uint32_t rank) {
    place own{.rank = rank, .members = {0, 1}, .store_prefix = "g1"};
    own.collective_timeout_ms = 20'000;
    own.servers = {2};
    return own;
  }
  std::unique_ptr<group> join_as(std::uint32_t rank) {
    auto all = join_all(place_of(rank), meeting, never);
    return sum_by_servers(std::move(all), {0, 0, 1}, never, join_workers(place_of(rank), meeting, never));
  }
  memory_store meeting;
  const interruption never;
  interruption stop; ///< of the one that serves
  std::unique_ptr<group> workers[2];
  std::string reason; ///< why it ended; to be read once it is joined
  std::jthread serving;
};

TEST(ServerGroup, BreaksForAllWhenAHostThatServesIsInterrupted) {
  served_pair trio;
  const auto summed = trio.workers[0]->make_bucket(element::float32, 100'000, 1);
  summed->start(); // the other worker brings nothing
  trio.stop.raise("the generation is over");
  trio.serving.join();
  EXPECT_EQ(trio.reason, "the generation is over");
  EXPECT_THROW(summed->wait(), error);
  const auto late = trio.workers[1]->make_bucket(element::float32, 100'000, 1);
  EXPECT_THROW(
      {
        late->start();
        late->wait();
      },
      error);
}

TEST(ServerGroup, GoesOnPastTheSumsThatAHostThatServesBeginsAtOnce) {
  run_served(
      2, 1,
      [](std::uint32_t rank, group& peers) {
        std::vector<std::unique_ptr<bucket>> all;
        for (std::size_t i = 0; i < 600; ++i) {
          all.push_back(peers.make_bucket(element::float32, 100, 1));
          all.back()->sums()[0] = static_cast<double>(rank + i);
          all.back()->start();
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
          all[i]->wait();
          EXPECT_EQ(all[i]->sums()[0], 1.0 + 2.0 * static_cast<double>(i));
        }
      },
      [](const place& own, store& meeting, const interruption& stop) {
        auto all = join_all(own, meeting, stop);
        return sum_by_servers(std::move(all), {0, 0, 1}, stop, join_workers(own, meeting, stop));
      },
      [](const place& own, store& meeting, const interruption& stop) {
        const auto all = join_all(own, meeting, stop);
        const auto word = serve_members(*all, 2, {0, 0, 1}, stop);
        all->leave();
        return word;
      });
}

TEST(ServerGroup, RefusesASumThatHasNoWholeNumberOfElements) {
  memory_store meeting;
  const interruption never;
  const auto place_of = [](std::uint32_t rank) { return place{.rank = rank, .members = {0, 1}, .store_prefix = "g1"}; };
  std::string reason;
  std::unique_ptr<ring_group> worker;
  {
    std::jthread serving([&] {
      const auto all = join_ring(place_of(1), meeting, never);
      try {
        serve_members(*all, 1, {0, 1}, never);
      } catch (const error& problem) {
        reason = problem.what();
      }
    });
    worker = join_ring(place_of(0), meeting, never);
    const std::uint64_t floats_of_six_bytes[] = {0, 6};
    worker->messages()->send(1, 3, std::as_bytes(std::span(floats_of_six_bytes)))->wait();
  }
  EXPECT_THAT(reason, testing::HasSubstr("cannot be: kind 0, 6 bytes"));
}

TEST(ServerGroup, EndsWhoServesWhenAWorkerIsGone) {
  for (const int gone : {0, 1}) {
    served_pair trio;
    const auto summed = trio.workers[1 - gone]->make_bucket(element::float32, 100'000, 1);
    trio.workers[gone].reset();
    EXPECT_THROW(
        {
          summed->start();
          summed->wait();
        },
        error);
    trio.workers[1 - gone]
        .reset(); // one that only serves hears of a lost worker when something is summed, or from this
    trio.serving.join();
    EXPECT_NE(trio.reason, "");
  }
}

TEST(ServerGroup, HasManySumsUnderWayAtOnce) {
  run_ranks(
      4,
      [](std::uint32_t rank, group& peers) {
        std::vector<std::unique_ptr<bucket>> all;
        for (std::size_t i = 0; i < 40; ++i) {
          all.push_back(peers.make_bucket(element::float32, 5000 * i, 1));
          const auto values = std::get<std::span<float>>(all.back()->gradients());
          std::ranges::fill(values, static_cast<float>(rank + i));
          all.back()->sums()[0] = rank;
          all.back()->start();
        }
        const std::int64_t row[] = {rank};
        EXPECT_EQ(peers.all_gather(row)->wait(), (std::vector<std::int64_t>{0, 1, 2, 3}));
        for (std::size_t i = all.size(); i-- > 0;) {
          all[i]->wait();
          const auto values = std::get<std::span<float>>(all[i]->gradients());
          EXPECT_EQ(std::ranges::count(values, static_cast<float>(6 + 4 * i)), std::ssize(values));
          EXPECT_EQ(all[i]->sums()[0], 6);
        }
      },
      by_shares({1, 0, 2, 1}));
}

TEST(ServerGroup, PassesOnWhatIsNoNumber) {
  run_ranks(
      3,
      [](std::uint32_t rank, group& peers) {
        const auto summed = peers.make_bucket(element::float32, 60, 1);
        const auto values = std::get<std::span<float>>(summed->gradients());
        if (rank == 1) {
          values[0] = NAN;
          values[20] = HUGE_VALF;
          values[40] = -HUGE_VALF;
          summed->sums()[0] = NAN;
        }
        if (rank == 2)
          values[40] = HUGE_VALF;
        std::ranges::fill(values.last(10), -0.0F);
        summed->start();
        summed->wait();
        EXPECT_TRUE(std::isnan(values[0]));
        EXPECT_EQ(values[20], HUGE_VALF);
        EXPECT_TRUE(std::isnan(values[40]));
        EXPECT_EQ(values[1], 0);
        EXPECT_TRUE(std::signbit(values[59]));
        EXPECT_TRUE(std::isnan(summed->sums()[0]));
      },
      by_shares({1, 1, 1}));
}

TEST(ServerGroup, CombinesWordsModuloTheirSizeAndBits) {
  run_ranks(
      3,
      [](std::uint32_t rank, group& peers) {
        const auto sums = std::make_shared<std::vector<std::uint64_t>>(1000, ~std::uint64_t{0} - rank);
        const auto bits = std::make_shared<std::vector<std::uint64_t>>(1000, std::uint64_t{1} << rank);
        const auto adding = peers.combine(sums, combining::add);
        peers.combine(bits, combining::bitwise_or)->wait();
        adding->wait();
        EXPECT_THAT(*sums, testing::Each(~std::uint64_t{0} - 5));
        EXPECT_THAT(*bits, testing::Each(7U));
      },
      by_shares({1, 0, 1}));
}

/// The members of a group leave, and others are in the next one.
TEST(ServerGroup, SumsInOneGenerationAfterTheOther) {
  memory_store meeting;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      const interruption never;
      const std::vector<std::vector<std::uint32_t>> generations = {{0, 1, 2}, {1, 2, 3}, {0, 1, 2, 3}, {0, 3}};
      for (std::size_t i = 0; i < generations.size(); ++i) {
        const place own{.rank = rank, .members = generations[i], .store_prefix = "g" + std::to_string(i)};
        if (own.position_of(rank) == own.members.size())
          continue;
        const auto peers =
            sum_by_servers(join_ring(own, meeting, never), std::vector<double>(own.members.size(), 1), never);
        expect_sums_in_rank_order<float>(*peers, peers->position(), 3000, i);
        peers->leave();
      }
    });
}

/// Two members of which the second, once it has joined, takes part in nothing.
struct server_pair {
  server_pair() {
    std::jthread other([this] { silent = join_as(1, never); });
    waiting = join_as(0, stop);
  }
  std::unique_ptr<group> join_as(std::uint32_t rank, const interruption& ends) {
    const place own{.rank = rank, .members = {0, 1}, .store_prefix = "g1", .collective_timeout_ms = 20'000};
    return sum_by_servers(join_ring(own, meeting, ends), {1, 1}, ends);
  }
  std::unique_ptr<bucket> start(group& of, std::size_t count) {
    auto started = of.make_bucket(element::float32, count, 1);
    started->sums()[0] = 3;
    started->start();
    return started;
  }
  memory_store meeting;
  const interruption never;
  interruption stop;
  std::unique_ptr<group> silent;
  std::unique_ptr<group> waiting;
};

TEST(ServerGroup, LeavesASumInFlightWhenInterruptedAndEndsAtOnce) {
  server_pair pair;
  const auto begin = std::chrono::steady_clock::now();
  const auto summed = pair.start(*pair.waiting, 1'000'000);
  std::jthread raising([&] {
    std::this_thread::sleep_for(milliseconds(50));
    pair.stop.raise("the generation is over");
  });
  try {
    summed->wait();
    FAIL() << "came to an end without the other member";
  } catch (const error& problem) {
    EXPECT_STREQ(problem.what(), "the generation is over");
  }
  pair.start(*pair.silent, 1'000'000)->wait(); // the other member's threads still serve what it started
  const auto alone = pair.start(*pair.silent, 1000);
  pair.waiting.reset();
  EXPECT_THROW(alone->wait(), error) << "only the collective time-out would have ended it";
  pair.silent.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
}

TEST(ServerGroup, ThrowsItsOwnErrorWhenAPeerHasGone) {
  server_pair pair;
  pair.silent.reset();
  EXPECT_THROW(pair.start(*pair.waiting, 1000)->wait(), error);
}

TEST(ServerGroup, KeepsTheMemoryOfASumThatWasGivenUpWhileItMayBeWrittenInto) {
  server_pair pair;
  auto given_up = pair.start(*pair.waiting, 1'000'000);
  given_up.reset();
  const auto late = pair.start(*pair.silent, 1'000'000);
  late->wait();
  EXPECT_EQ(late->sums()[0], 6);
}

/// Three steps of a sparse bucket, with another share of its items in each; the last step's sums.
std::vector<float> sum_sparse_steps(group& peers, std::uint32_t rank) {
  const auto summed = peers.make_sparse_bucket(2000, 16, 1);
  const auto values = std::get<std::span<float>>(summed->gradients());
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::ranges::fill(values, 0.0F);
    summed->touched()->clear();
    storage::splitmix64 random(7 * step + rank);
    for (std::uint32_t item = random.below(5); item < 2000; item += 1 + random.below(9)) {
      summed->touched()->push_back(item);
      std::ranges::copy(draw<float>(16, random.next()), values.begin() + item * 16);
    }
    summed->start();
    summed->wait();
  }
  return {values.begin(), values.end()};
}

TEST(ServerGroup, SumsCompressedBucketsToTheBitsOfARing) {
  for (const auto how : {form::union_of_items, form::gather, form::lhc}) {
    std::vector<std::vector<float>> in_ring(3);
    std::vector<std::vector<float>> by_servers(3);
    std::vector<std::vector<float>> by_hosts(3); // of which one brings nothing
    std::vector<compression_counts> counts(3);
    const auto body = [&](std::vector<std::vector<float>>& sums) {
      return [&](std::uint32_t rank, std::unique_ptr<group>& peers) {
        peers = compress(std::move(peers), how, counts[rank]);
        sums[rank] = sum_sparse_steps(*peers, rank);
      };
    };
    run_ranks(3, body(in_ring));
    run_ranks(3, body(by_servers), by_shares({0.6, 0.4, 0}));
    const std::vector<double> shares = {0.2, 0, 0.3, 0.5};
    run_served(
        3, 1, [&](std::uint32_t rank, group& peers) { by_hosts[rank] = sum_sparse_steps(peers, rank); },
        [&](const place& own, store& meeting, const interruption& stop) {
          auto all = join_all(own, meeting, stop);
          auto served = sum_by_servers(std::move(all), shares, stop, join_workers(own, meeting, stop));
          return compress(std::move(served), how, counts[own.rank]);
        },
        [&](const place& own, store& meeting, const interruption& stop) {
          const auto all = join_all(own, meeting, stop);
          const auto word = serve_members(*all, 3, shares, stop);
          all->leave();
          return word;
        });
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(in_ring[rank], in_ring[0]) << static_cast<int>(how);
      EXPECT_EQ(by_servers[rank], in_ring[0]) << static_cast<int>(how);
      EXPECT_EQ(by_hosts[rank], in_ring[0]) << static_cast<int>(how);
    }
  }
}

TEST(LinkRates, AreTheSameOnAllMembersAndPlanTheirShares) {
  std::vector<summing_plan> plans(3);
  run_ranks(
      3, [](std::uint32_t rank, group& peers) { expect_sums_in_rank_order<float>(peers, rank, 10'000, 1); },
      [&](const place& own, store& meeting, const interruption& stop) {
        return join(own, meeting, stop, summing::parameter_server, &plans[own.rank]);
      });
  for (const auto& plan : plans) {
    EXPECT_TRUE(plan.by_servers);
    EXPECT_EQ(plan.link_rates, plans[0].link_rates);
    EXPECT_EQ(plan.servers, plans[0].servers);
    EXPECT_THAT(plan.link_rates, testing::Each(testing::Gt(1e6))) << "loopback moves more than a megabyte a second";
  }
}

TEST(LinkRates, AreNotWaitedForWhenInterrupted) {
  memory_store meeting;
  interruption stop;
  std::unique_ptr<group> silent;
  const interruption never;
  std::jthread other([&] {
    silent = join_ring({.rank = 1, .members = {0, 1}, .store_prefix = "g1"}, meeting, never);
    std::this_thread::sleep_for(milliseconds(50));
    stop.raise("the generation is over");
  });
  EXPECT_THROW(join({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, stop, summing::parameter_server),
               error);
}

} // namespace
} // namespace dynamix::exchange
