#include "exchange/compression.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "trainer/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <mutex>
#include <numeric>

namespace dynamix::trainer {
namespace {

/// Inputs, labels and a model for one test; every rank gets the same ones.
struct problem {
  torch::Tensor inputs;
  torch::Tensor labels;
  torch::nn::Sequential model;
};

problem make_problem(std::int64_t samples, torch::ScalarType type) {
  static std::mutex one_generator;
  const std::lock_guard lock(one_generator);
  torch::manual_seed(5);
  problem made{torch::randn({samples, 12}), torch::randint(4, {samples}),
               torch::nn::Sequential(torch::nn::Linear(12, 20), torch::nn::Tanh(), torch::nn::Linear(20, 9),
                                     torch::nn::Tanh(), torch::nn::Linear(9, 4))};
  made.inputs = made.inputs.to(type);
  made.model->to(type);
  return made;
}

torch::Tensor loss_sum(problem& of, std::int64_t first, std::int64_t count) {
  return torch::nn::functional::cross_entropy(of.model->forward(of.inputs.narrow(0, first, count)),
                                              of.labels.narrow(0, first, count),
                                              torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

torch::Tensor flat_gradient(const torch::nn::Sequential& model) {
  std::vector<torch::Tensor> parts;
  for (const auto& parameter : model->parameters())
    parts.push_back(parameter.grad().reshape(-1));
  return torch::cat(parts);
}

/// The mean gradient over a range of samples, by plain autograd.
torch::Tensor reference_gradient(std::int64_t samples, std::int64_t first, std::int64_t count, torch::ScalarType type) {
  auto whole = make_problem(samples, type);
  (loss_sum(whole, first, count) / count).backward();
  return flat_gradient(whole.model).to(torch::kFloat64);
}

double relative_error(const torch::Tensor& got, const torch::Tensor& expected) {
  return ((got.to(torch::kFloat64) - expected).norm() / expected.norm()).item<double>();
}

struct scenario {
  std::vector<std::uint32_t> batches;
  torch::ScalarType type;
  double tolerance;
};

class WeightedGradient : public testing::TestWithParam<scenario> {};

TEST_P(WeightedGradient, EqualsThatOfTheJoinedBatch) {
  const auto& [batches, type, tolerance] = GetParam();
  const auto total = std::accumulate(batches.begin(), batches.end(), std::int64_t{0});
  const auto expected = reference_gradient(total, 0, total, type);
  const auto world_size = static_cast<std::uint32_t>(batches.size());
  double weighted_squares = 0;
  std::vector<double> own_squares(world_size);
  for (std::uint32_t rank = 0, first = 0; rank < world_size; first += batches[rank++]) {
    if (batches[rank] == 0)
      continue;
    own_squares[rank] = reference_gradient(total, first, batches[rank], type).square().sum().item<double>();
    weighted_squares += batches[rank] * own_squares[rank];
  }

  std::vector<torch::Tensor> gradients(world_size);
  exchange::run_ranks(world_size, [&](std::uint32_t rank, exchange::group& peers) {
    auto own = make_problem(total, type);
    steady_clock time;
    gradient_reducer reducer(own.model->parameters(), peers, time, 256); // several buckets
    const auto first = std::accumulate(batches.begin(), batches.begin() + rank, std::int64_t{0});
    for (int repetition = 0; repetition < 3; ++repetition) { // nothing may be left over from a step before
      reducer.begin(batches[rank]);
      if (batches[rank] > 0)
        loss_sum(own, first, batches[rank]).backward();
      const auto result = reducer.finish();
      EXPECT_EQ(result.global_batch, static_cast<std::uint64_t>(total));
      EXPECT_NEAR(result.square, expected.square().sum().item<double>(), 1e-5 * result.square);
      EXPECT_NEAR(result.weighted_squares, weighted_squares, 1e-5 * weighted_squares);
      EXPECT_NEAR(result.own_square, own_squares[rank], 1e-5 * own_squares[rank]);
      EXPECT_LT(relative_error(flat_gradient(own.model), expected), tolerance);
    }
    gradients[rank] = flat_gradient(own.model).clone();
  });
  for (const auto& gradient : gradients)
    EXPECT_TRUE(torch::equal(gradient, gradients[0]));
}

std::vector<scenario> scenarios() {
  std::vector<scenario> all;
  for (const auto& batches : std::vector<std::vector<std::uint32_t>>{
           {32, 32}, {48, 16}, {60, 4}, {64, 0}, {32, 32, 32, 32}, {48, 16, 60, 4}, {48, 16, 64, 0}, {0, 0, 64, 0}}) {
    all.push_back({batches, torch::kFloat32, 1e-6});
    all.push_back({batches, torch::kFloat64, 1e-12});
  }
  return all;
}

std::string scenario_name(const testing::TestParamInfo<scenario>& info) {
  std::string name = info.param.type == torch::kFloat32 ? "float32" : "float64";
  for (const auto batch : info.param.batches)
    name += "_" + std::to_string(batch);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Batches, WeightedGradient, testing::ValuesIn(scenarios()), scenario_name);

TEST(GradientReducer, CountsAParameterThatBackwardDidNotReachAsZeroAlsoOnOneRankOnly) {
  exchange::run_ranks(2, [](std::uint32_t rank, exchange::group& peers) {
    auto used = torch::ones({3}, torch::requires_grad());
    auto sometimes = torch::ones({5}, torch::requires_grad());
    steady_clock time;
    gradient_reducer reducer({used, sometimes}, peers, time, 4); // a bucket each, the unreached one first
    reducer.begin(1);
    auto loss = used.sum();
    if (rank == 1)
      loss = loss + 4 * sometimes.sum();
    loss.backward();
    reducer.finish();
    EXPECT_TRUE(torch::equal(used.grad(), torch::ones({3})));
    EXPECT_TRUE(torch::equal(sometimes.grad(), torch::full({5}, 2.0)));
  });
}

/// Every tenth of the numbers is sent in turn, with all that has come together of it.
TEST(GradientReducer, SendsTheLargestNumbersAndAddsTheRestToTheNextStep) {
  for (const auto how : {exchange::form::none, exchange::form::gather})
    exchange::run_ranks(2, [&](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
      constexpr std::int64_t count = 20'000;
      exchange::compression_counts counts;
      peers = exchange::compress(std::move(peers), how, counts);
      auto parameter = torch::ones({count}, torch::requires_grad());
      steady_clock time;
      gradient_reducer reducer({parameter}, *peers, time, 1 << 20, {}, 2, 0.1);
      auto total = torch::zeros({count});
      for (int step = 0; step < 20; ++step) {
        reducer.begin(1, [&] { return std::vector<std::int64_t>{rank, -1}; });
        (parameter.sum() * (1.0 + rank)).backward();
        const auto result = reducer.finish();
        EXPECT_EQ(result.global_batch, 2U);
        EXPECT_EQ(result.rows, (std::vector<std::int64_t>{0, -1, 1, -1}));
        EXPECT_EQ(torch::count_nonzero(parameter.grad()).item<std::int64_t>(),
                  how == exchange::form::none ? count : count / 10)
            << "what is summed whole anyway is not thinned";
        EXPECT_GT(result.square, 0);
        total += 2 * parameter.grad();
      }
      const auto tenths = torch::arange(count).div(count / 10, "floor");
      const auto sent = how == exchange::form::none ? torch::full({count}, 20) : 11 + tenths;
      EXPECT_TRUE(torch::equal(total, 3 * sent.to(torch::kFloat32)));
      EXPECT_EQ(counts.items, how == exchange::form::none ? 0U : 20U * count / 10);
    });
}

/// The gradient of every sample is 1, and so is what each step brings in the end, whatever its batch.
TEST(GradientReducer, KeepsTheRestPerSampleWhereBatchesChange) {
  exchange::run_ranks(2, [](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
    constexpr std::int64_t count = 20'000;
    constexpr int steps = 20;
    exchange::compression_counts counts;
    peers = exchange::compress(std::move(peers), exchange::form::gather, counts);
    auto parameter = torch::ones({count}, torch::requires_grad());
    steady_clock time;
    gradient_reducer reducer({parameter}, *peers, time, 1 << 20, {}, 0, 0.1);
    auto total = torch::zeros({count});
    for (int step = 1; step <= steps; ++step) {
      const std::uint32_t first = step == steps ? 1 : std::array{4, 16, 2, 8, 1}.at(step % 5);
      const std::uint32_t batch = rank == 0 ? first : step == steps ? 0 : 3 * first; // few samples are left at last
      reducer.begin(batch);
      if (batch > 0)
        (parameter.sum() * static_cast<double>(batch)).backward();
      EXPECT_EQ(reducer.finish().global_batch, step == steps ? 1 : 4 * first);
      EXPECT_EQ(torch::count_nonzero(parameter.grad()).item<std::int64_t>(), count / 10);
      total += parameter.grad();
    }
    const auto tenths = torch::arange(count).div(count / 10, "floor");
    EXPECT_TRUE(torch::equal(total, (11 + tenths).to(torch::kFloat32)));
  });
}

/// What is no number would be sent bit by bit, and spoil one step after the other.
TEST(GradientReducer, KeepsNoRestThatIsNotFinite) {
  exchange::run_ranks(2, [](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
    constexpr std::int64_t count = 20'000;
    exchange::compression_counts counts;
    peers = exchange::compress(std::move(peers), exchange::form::gather, counts);
    auto parameter = torch::ones({count}, torch::requires_grad());
    steady_clock time;
    gradient_reducer reducer({parameter}, *peers, time, 1 << 20, {}, 1, 0.1);
    for (int step = 0; step < 4; ++step) {
      bool finite = true;
      reducer.begin(1, [&] {
        finite = reducer.is_finite();
        return std::vector<std::int64_t>{step};
      });
      const bool harmed = rank == 1 && step == 1;
      (parameter.sum() * (harmed ? std::numeric_limits<double>::quiet_NaN() : 1)).backward();
      EXPECT_EQ(std::isfinite(reducer.finish().square), step != 1) << step;
      EXPECT_EQ(finite, !harmed) << "known when the row is asked for";
    }
  });
}

/// Where parameters lie on a device, gradients are packed there and copied. Here the copies are within the host's
/// memory, so what they are copied to and fro for can be compared: the same bits, also of rows, of the largest numbers,
/// and of what backward does not reach.
TEST(GradientReducer, SumsTheSameByWayOfADevicesMemory) {
  constexpr std::int64_t rows = 500;
  constexpr std::int64_t row_floats = 16;
  for (const double top_k : {0.0, 0.2}) {
    std::array<std::vector<torch::Tensor>, 2> gradients;
    std::array<std::vector<double>, 2> numbers;
    for (const bool by_device : {false, true})
      exchange::run_ranks(2, [&](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
        exchange::compression_counts counts;
        peers = exchange::compress(std::move(peers), exchange::form::gather, counts);
        torch::Tensor rows_of;
        torch::Tensor dense;
        {
          static std::mutex one_generator;
          const std::lock_guard lock(one_generator);
          torch::manual_seed(3);
          rows_of = torch::randn({rows, row_floats});
          dense = torch::randn({row_floats, 2'000});
        }
        rows_of.requires_grad_();
        dense.requires_grad_();
        auto unreached = torch::ones({30}, torch::requires_grad());
        steady_clock time;
        gradient_reducer reducer({rows_of, unreached, dense}, *peers, time, 1024, {row_floats, 0, 0}, 2, top_k,
                                 by_device ? std::make_unique<device_copies>(torch::kCPU) : nullptr);
        for (int step = 0; step < 4; ++step) {
          const std::uint32_t batch = step == 2 && rank == 1 ? 0 : 8; // in two parts
          reducer.begin(batch, [&] { return std::vector<std::int64_t>{15, rank}; });
          for (std::int64_t part = 0; part < 2 && batch > 0; ++part) {
            reducer.accumulate(part == 0);
            const auto chosen = torch::arange(4) * (part + 1) + 3 * step + static_cast<std::int64_t>(rank);
            auto loss = torch::embedding(rows_of, chosen, -1, false, /*sparse=*/true).mm(dense).square().sum();
            if (step == 1)
              loss = loss + unreached.sum();
            loss.backward();
          }
          reducer.send();
          const auto result = reducer.finish();
          EXPECT_EQ(result.rows, (std::vector<std::int64_t>{15, 0, 15, 1}));
          if (rank == 0) {
            for (const auto& parameter : {rows_of, unreached, dense})
              gradients.at(by_device ? 1 : 0).push_back(parameter.grad().clone());
            for (const double number : {result.square, result.weighted_squares, result.own_square})
              numbers.at(by_device ? 1 : 0).push_back(number);
          }
        }
      });
    EXPECT_EQ(numbers[0], numbers[1]);
    ASSERT_EQ(gradients[0].size(), gradients[1].size());
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      EXPECT_TRUE(torch::equal(gradients[0][i], gradients[1][i])) << i;
    EXPECT_GT(gradients[0][2].abs().sum().item<double>(), 0);
  }
}

TEST(GradientReducer, RefusesParametersOfMixedTypes) {
  exchange::run_ranks(1, [](std::uint32_t, exchange::group& peers) {
    steady_clock time;
    const std::vector<torch::Tensor> mixed{torch::ones({3}, torch::requires_grad()),
                                           torch::ones({3}, torch::dtype(torch::kFloat64).requires_grad(true))};
    EXPECT_THROW(gradient_reducer(mixed, peers, time, 1024), std::invalid_argument);
  });
}

TEST(GradientReducer, LeavesAModelThatOutlivesItAlone) {
  auto own = make_problem(8, torch::kFloat32);
  exchange::run_ranks(1, [&](std::uint32_t, exchange::group& peers) {
    steady_clock time;
    gradient_reducer reducer(own.model->parameters(), peers, time, 1024);
  });
  (loss_sum(own, 0, 8) / 8).backward();
  EXPECT_LT(relative_error(flat_gradient(own.model), reference_gradient(8, 0, 8, torch::kFloat32)), 1e-6);
}

/// The ring cuts a longer bucket elsewhere, so gradients may round otherwise, but to the same bits on all ranks.
TEST(Rows, AreWhatEachRankFilledInBitForBitOnAllRanks) {
  const std::vector<std::uint32_t> batches{5, 0, 9, 2};
  constexpr std::size_t columns = 3;
  std::vector<std::vector<std::int64_t>> read(batches.size());
  std::vector<torch::Tensor> gradients(batches.size());
  std::vector<torch::Tensor> without(batches.size());
  const auto value = [](std::uint32_t rank, std::size_t at, int step) {
    if (rank == 3)
      return std::int64_t{0}; // it has nothing to tell
    return at == 0 ? INT64_MIN + rank : at == 1 ? INT64_MAX - step : std::bit_cast<std::int64_t>(-1.0 / (3 + rank));
  };
  for (const bool with_rows : {false, true})
    exchange::run_ranks(4, [&](std::uint32_t rank, exchange::group& peers) {
      auto own = make_problem(16, torch::kFloat32);
      steady_clock time;
      gradient_reducer reducer(own.model->parameters(), peers, time, 256, {}, with_rows ? columns : 0);
      const auto first = std::accumulate(batches.begin(), batches.begin() + rank, std::int64_t{0});
      for (int step = 1; step <= 3; ++step) {
        std::vector<std::int64_t> row;
        for (std::size_t i = 0; with_rows && i < columns; ++i)
          row.push_back(value(rank, i, step));
        int asked = 0;
        reducer.begin(
            batches[rank], rank == 3 ? row_source{} : [&] { return ++asked, row; });
        if (batches[rank] > 0)
          loss_sum(own, first, batches[rank]).backward();
        const auto result = reducer.finish();
        EXPECT_EQ(asked, with_rows && rank != 3 ? 1 : 0);
        EXPECT_EQ(result.rows.size(), with_rows ? 4 * columns : 0);
        read[rank] = result.rows;
        for (std::size_t i = 0; i < result.rows.size(); ++i)
          EXPECT_EQ(result.rows[i], value(static_cast<std::uint32_t>(i / columns), i % columns, step));
      }
      (with_rows ? gradients : without)[rank] = flat_gradient(own.model).clone();
    });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(read[rank], read[0]);
    EXPECT_TRUE(torch::equal(gradients[rank], gradients[0]));
    EXPECT_LT(relative_error(gradients[rank], without[0].to(torch::kFloat64)), 1e-6);
  }
}

/// A worker that is busy after its backward, or sleeps as an emulated slow host does, keeps nobody waiting.
TEST(Rows, GoWithTheLastGradientsAndWaitForNothingElse) {
  std::promise<void> others_done;
  exchange::run_ranks(2, [&](std::uint32_t rank, exchange::group& peers) {
    auto own = make_problem(8, torch::kFloat32);
    steady_clock time;
    gradient_reducer reducer(own.model->parameters(), peers, time, 256, {}, 1);
    reducer.begin(4, [&] { return std::vector<std::int64_t>{1 + rank}; });
    loss_sum(own, 4 * rank, 4).backward();
    if (rank == 1) {
      EXPECT_EQ(others_done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    }
    EXPECT_EQ(reducer.finish().rows, (std::vector<std::int64_t>{1, 2}));
    if (rank == 0)
      others_done.set_value();
  });
}

} // namespace
} // namespace dynamix::trainer
