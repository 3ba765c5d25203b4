#include "exchange/compression.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/seeds.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/tensor_records.hpp"
#include "trainer/training_step.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace dynamix::trainer {
namespace {

constexpr double scale = 0.01; ///< 1,385 users, 267 items

cluster::training ncf_training() {
  cluster::training training;
  training.model = cluster::model_kind::ncf;
  training.dataset = cluster::dataset_kind::interactions;
  training.interactions_scale = scale;
  training.learning_rate = 2;
  training.momentum = 0.9;
  return training;
}

dataset load(dataset_split split) {
  dataset data;
  EXPECT_EQ(load_dataset(ncf_training(), split, data), "");
  return data;
}

TEST(Interactions, AreTheSameEachTimeWithinTheirShapeAndDifferBetweenSplits) {
  const auto train = load(dataset_split::train);
  const auto test = load(dataset_split::test);
  EXPECT_EQ(train.size(), 200'003U);
  EXPECT_EQ(test.size(), 1385U);
  std::map<std::uint32_t, std::uint32_t> chosen;
  std::set<std::uint32_t> users;
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    const auto sample = train.choices->at(number);
    ASSERT_LT(sample.user, 1385U);
    ASSERT_LT(sample.chosen, candidates);
    for (const auto item : sample.items)
      ASSERT_LT(item, 267U);
    EXPECT_EQ(train.choices->at(number).items, sample.items);
    users.insert(sample.user);
    ++chosen[sample.items[sample.chosen]];
  }
  EXPECT_GT(users.size(), 1200U);
  EXPECT_GT(chosen[0], 2 * chosen[200]) << "some items are popular";
  EXPECT_NE(train.choices->at(0).items, test.choices->at(0).items);
}

TEST(Interactions, OfFullScaleAreAsManyAsMovieLens) {
  const auto shape = interactions_shape_of(1);
  EXPECT_EQ(shape.users, 138'493U);
  EXPECT_EQ(shape.items, 26'744U);
  EXPECT_EQ(shape.train, 20'000'263U);
  EXPECT_EQ(shape.test, shape.users);
}

struct trained {
  std::uint64_t checksum = 0;
  double accuracy = 0;
  exchange::compression_counts counts;
};

/// Trains on `size` ranks, with a batch of each rank's own size.
std::vector<trained> train(exchange::form how, std::uint32_t size, std::uint64_t steps) {
  const auto data = load(dataset_split::train);
  const auto test = load(dataset_split::test);
  std::vector<trained> results(size);
  exchange::run_ranks(size, [&](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
    peers = exchange::compress(std::move(peers), how, results[rank].counts);
    auto model = build_model(options_of(ncf_training(), test_seed(1)));
    batch_loader loader(data, measure_channels(data));
    batch_loader test_loader(test, measure_channels(data));
    steady_clock time;
    const exchange::interruption never;
    training_step step(model, loader, *peers, time, never, {});
    optimizer descent(ncf_training(), step.parameters());
    std::vector<std::uint32_t> samples(60 + 20 * rank);
    for (std::uint64_t number = 0; number < steps; ++number) {
      std::iota(samples.begin(), samples.end(), static_cast<std::uint32_t>((number * size + rank) * 100));
      if (rank == 1 && number % 7 == 3)
        step.run({}, 1); // a worker without samples
      else
        step.run(samples, 1);
      descent.step();
    }
    results[rank].checksum = model_checksum(*model);
    const auto evaluated = evaluate(model, test_loader, {0, test.size()});
    results[rank].accuracy = static_cast<double>(evaluated.correct) / static_cast<double>(evaluated.count);
  });
  for (const auto& result : results)
    EXPECT_EQ(result.checksum, results[0].checksum) << "the same bits on all ranks";
  return results;
}

TEST(Ncf, EndsWithTheSameParametersHoweverTwoRanksSum) {
  // The sum of two floats does not depend on their order and is rounded once, so all forms agree with the dense one.
  constexpr std::uint64_t steps = 200;
  const auto dense = train(exchange::form::none, 2, steps);
  EXPECT_EQ(dense[0].counts, exchange::compression_counts{});
  for (const auto how : {exchange::form::union_of_items, exchange::form::gather, exchange::form::lhc}) {
    const auto compressed = train(how, 2, steps);
    EXPECT_EQ(compressed[0].checksum, dense[0].checksum) << static_cast<int>(how);
    EXPECT_EQ(compressed[0].counts.sums, steps);
    EXPECT_EQ(compressed[0].counts.sketched > 0, how == exchange::form::lhc);
  }
}

TEST(Ncf, EndsWithTheSameParametersByUnionAndByGathering) {
  const auto joined = train(exchange::form::union_of_items, 3, 40);
  EXPECT_EQ(train(exchange::form::gather, 3, 40)[0].checksum, joined[0].checksum) << "both add in the order of ranks";
  EXPECT_NEAR(train(exchange::form::lhc, 3, 40)[0].accuracy, joined[0].accuracy, 0.05);
}

TEST(Ncf, LearnsMoreThanChance) {
  EXPECT_GT(train(exchange::form::lhc, 2, 200)[0].accuracy, 0.3) << "one item of five would be 0.2";
}

} // namespace
} // namespace dynamix::trainer
