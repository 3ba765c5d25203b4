// Streams of the C++ SDK on real Gloo ranks, each a thread of this process.

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <array>
#include <dynamix/torch_stream.hpp>
#include <map>
#include <numeric>
#include <thread>

namespace dynamix {
namespace {

constexpr std::size_t members = 2;
const std::vector<std::uint64_t> lengths{17, 0, 5, 40, 1, 23, 30};
const std::uint64_t items = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});

using example = torch::data::Example<>;

/// The items of a shard, which name it and their place in it.
auto open(const std::size_t& shard) {
  return [shard, next = std::uint64_t{0}]() mutable -> std::optional<example> {
    if (next == lengths[shard])
      return std::nullopt;
    const auto value = 0.01 * static_cast<double>(next);
    const auto name = static_cast<std::int64_t>(1000 * shard + next++);
    return example{torch::tensor({value}, torch::kFloat64), torch::tensor({name}, torch::kInt64)};
  };
}

std::vector<std::size_t> numbers(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

struct plan {
  std::array<std::uint32_t, members> batches{16, 5};
  std::array<std::uint32_t, members> readers{1, 1}; ///< and workers of the loader; 0: none, and one reader
  std::size_t steps = 1000;                         ///< at most
  int epochs = 2;
  std::uint32_t limit = 0; ///< of the first member's batch, from its second step on; 0: none
  std::vector<std::uint64_t> state = {};
};

struct trained {
  std::vector<std::vector<std::vector<std::int64_t>>> epochs; ///< the names of each step's items
  std::vector<std::uint64_t> state;
};

trained train(const plan& how, std::size_t rank, const c10::intrusive_ptr<c10d::HashStore>& store) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank), static_cast<int>(members), options);
  const auto group = group_of(gloo);
  auto data = make_stream(numbers(lengths.size()), open);
  data.count(group);
  torch::nn::Linear model(1, 1);
  model->to(torch::kFloat64);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  auto run =
      join(model->parameters(), optimizer,
           {.batch = how.batches[rank], .shards = data.shards(), .readers = how.readers[rank], .seed = 3, .agent = ""},
           group);
  if (!how.state.empty())
    run.restore(how.state);
  auto loader = torch::data::make_data_loader(data.map(torch::data::transforms::Stack<>()), data.sampler(run),
                                              torch::data::DataLoaderOptions().workers(how.readers[rank]));
  trained result;
  std::size_t steps = 0;
  for (int epoch = 0; epoch < how.epochs && steps < how.steps; ++epoch) {
    result.epochs.emplace_back();
    for (auto& batch : *loader) {
      const auto names = batch.target.contiguous();
      result.epochs.back().emplace_back(names.data_ptr<std::int64_t>(), names.data_ptr<std::int64_t>() + names.numel());
      if (rank == 0 && how.limit > 0 && steps == 1)
        run.limit_batch(how.limit);
      optimizer.zero_grad();
      model->forward(batch.data).square().mean().backward();
      run.step();
      if (++steps == how.steps)
        break;
    }
  }
  result.state = run.state();
  return result;
}

std::vector<trained> train_ranks(const plan& how) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<trained> results(members);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < members; ++rank)
    ranks.emplace_back([&, rank] { results[rank] = train(how, rank, store); });
  for (auto& rank : ranks)
    rank.join();
  return results;
}

/// How often each item of an epoch was dealt. A member that its last step has nothing for is given the first item of
/// all, which does not count.
std::map<std::int64_t, int> count(const std::vector<trained>& ranks, std::size_t epoch) {
  std::map<std::int64_t, int> seen;
  for (std::size_t step = 0; step < ranks[0].epochs[epoch].size(); ++step)
    for (const auto& rank : ranks) {
      const auto& names = rank.epochs[epoch][step];
      const bool stand_in = step + 1 == rank.epochs[epoch].size() && names == std::vector<std::int64_t>{0};
      if (!stand_in || seen[0] == 0)
        for (const auto name : names)
          ++seen[name];
    }
  return seen;
}

TEST(TorchStream, DealsEachItemOnceAnEpochWithAnyReadersWhileBatchSizesChange) {
  for (const auto& readers : {std::array<std::uint32_t, members>{0, 0}, {1, 2}, {3, 0}}) {
    const auto ranks = train_ranks({.readers = readers, .limit = 7});
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_EQ(ranks[0].epochs[epoch].size(), ranks[1].epochs[epoch].size());
      const auto seen = count(ranks, epoch);
      EXPECT_EQ(seen.size(), items);
      for (const auto& [name, times] : seen)
        EXPECT_EQ(times, 1) << "item " << name << " of epoch " << epoch;
    }
    EXPECT_EQ(ranks[0].epochs[0][0].size(), 16U);
    EXPECT_EQ(ranks[0].epochs[1][0].size(), 7U) << "the batch size has not changed";
  }
}

TEST(TorchStream, GoesOnFromAStateWithTheItemsThatFollow) {
  for (const std::uint32_t readers : {0U, 2U}) {
    const std::size_t before = 3; // in mid-epoch, and shards are open
    plan how{.readers = {readers, readers}};
    const auto whole = train_ranks(how);
    EXPECT_NE(whole[0].epochs[0], whole[0].epochs[1]) << "the shards were not shuffled";
    how.steps = before;
    const auto first = train_ranks(how);
    EXPECT_EQ(first[0].state, first[1].state);
    how.steps = 1000;
    how.state = first[0].state;
    const auto second = train_ranks(how);
    for (std::size_t rank = 0; rank < members; ++rank) {
      const auto& steps = whole[rank].epochs[0];
      EXPECT_EQ(second[rank].epochs[0], (std::vector<std::vector<std::int64_t>>(steps.begin() + before, steps.end())));
      EXPECT_EQ(second[rank].epochs[1], whole[rank].epochs[1]);
    }
  }
}

TEST(TorchStream, DealsTheRestOnceToOtherReadersThanThoseOfTheState) {
  plan how{.readers = {2, 1}, .steps = 3};
  const auto first = train_ranks(how);
  how = {.readers = {0, 3}, .epochs = 1, .state = first[0].state};
  const auto second = train_ranks(how);
  auto seen = count(first, 0);
  for (const auto& [name, times] : count(second, 0))
    seen[name] += times;
  EXPECT_EQ(seen.size(), items);
  for (const auto& [name, times] : seen)
    EXPECT_EQ(times, 1) << "item " << name;
}

/// What one process says of a stream that it trains on, joined with other shards or restored from another state.
template <class Stream>
std::string problem_of(Stream data, std::optional<stream_shards> shards = {}, std::vector<std::uint64_t> state = {}) {
  torch::nn::Linear model(1, 1);
  model->to(torch::kFloat64);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  try {
    auto run = join(model->parameters(), optimizer,
                    {.batch = 8, .shards = shards ? *shards : data.shards(), .seed = 3, .agent = ""});
    if (!state.empty())
      run.restore(state);
    auto loader = torch::data::make_data_loader(data.map(torch::data::transforms::Stack<>()), data.sampler(run),
                                                torch::data::DataLoaderOptions().workers(0));
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      model->forward(batch.data).square().mean().backward();
      run.step();
    }
  } catch (const error& problem) {
    return problem.what();
  }
  return {};
}

TEST(TorchStream, TellsWhichShardDoesNotHaveTheItemsThatItWasGiven) {
  const auto shards = numbers(lengths.size());
  auto longer = lengths;
  ++longer[3];
  EXPECT_NE(problem_of(make_stream(shards, open, longer)).find("shard 3 ended after 40 items, not 41"),
            std::string::npos);
  auto shorter = lengths;
  --shorter[3];
  EXPECT_NE(problem_of(make_stream(shards, open, shorter)).find("shard 3 has more items than the 39"),
            std::string::npos);
  EXPECT_EQ(problem_of(make_stream(shards, open, lengths)), "");
  EXPECT_THROW(make_stream(shards, open, {1, 2}), error);
}

TEST(TorchStream, RefusesARunThatDealsOtherShards) {
  const auto data = make_stream(numbers(lengths.size()), open, lengths);
  auto others = data.shards();
  ++others.identity;
  EXPECT_NE(problem_of(data, others).find("join with .shards = data.shards()"), std::string::npos);
  EXPECT_NE(problem_of(data, stream_shards{}).find("an epoch of 0 samples"), std::string::npos);
}

TEST(TorchStream, RefusesStatesOfOtherShards) {
  const auto state = train_ranks({.steps = 1})[0].state;
  EXPECT_EQ(problem_of(make_stream(numbers(lengths.size()), open, lengths), {}, state), "");
  auto other = lengths;
  std::swap(other[0], other[2]);
  EXPECT_NE(problem_of(make_stream(numbers(lengths.size()), open, other), {}, state).find("of other shards"),
            std::string::npos);
}

TEST(TorchStream, CannotCountShardsThatCannotBeRead) {
  auto data = make_stream(numbers(2), [](const std::size_t& shard) {
    if (shard == 1)
      throw std::runtime_error("no such file");
    return open(shard);
  });
  try {
    data.count();
    FAIL() << "counted";
  } catch (const error& problem) {
    EXPECT_NE(std::string(problem.what()).find("no such file"), std::string::npos);
  }
}

} // namespace
} // namespace dynamix
