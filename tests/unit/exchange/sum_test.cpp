#include "exchange/exact_sum.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

/// Buckets against a slow reference: one thread that adds up in rank order, in double.

namespace dynamix::exchange {
namespace {

/// What the ranks bring: the gradient of each is weighted by its batch, and one without samples brings zeros.
struct contribution {
  std::vector<double> gradients; ///< representable as float
  std::vector<double> sums;
};

std::vector<contribution> draw(const std::vector<std::uint32_t>& batches, std::size_t gradients, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<contribution> drawn;
  for (const auto batch : batches) {
    contribution next{std::vector<double>(gradients), {static_cast<double>(batch), 0}};
    double square = 0;
    for (auto& gradient : next.gradients) {
      gradient = batch == 0 ? 0 : static_cast<float>(batch) * normal(random);
      square += gradient * gradient;
    }
    next.sums[1] = batch == 0 ? 0 : square / batch;
    drawn.push_back(std::move(next));
  }
  return drawn;
}

contribution slow_sum(const std::vector<contribution>& all) {
  contribution total{std::vector<double>(all[0].gradients.size()), {0, 0}};
  for (const auto& each : all)
    for (std::size_t i = 0; i < each.gradients.size(); ++i)
      total.gradients[i] += each.gradients[i];
  for (std::size_t i = 0; i < total.sums.size(); ++i) {
    __float128 sum = 0; // exact here: the squares are of one magnitude
    for (const auto& each : all)
      sum += each.sums[i];
    total.sums[i] = static_cast<double>(sum);
  }
  return total;
}

void fill(bucket& filled, const contribution& with) {
  std::visit([&](auto gradients) { std::ranges::copy(with.gradients, gradients.begin()); }, filled.gradients());
  std::ranges::copy(with.sums, filled.sums().begin());
}

/// The bytes of all that a bucket holds: gradients, then sums.
std::vector<std::byte> bytes_of(bucket& summed) {
  std::vector<std::byte> bytes;
  const auto add = [&](auto span) {
    const auto some = std::as_bytes(span);
    bytes.insert(bytes.end(), some.begin(), some.end());
  };
  std::visit(add, summed.gradients());
  add(summed.sums());
  return bytes;
}

double relative_error(bucket& got, const std::vector<double>& expected) {
  double wrong = 0;
  double norm = 0;
  std::visit(
      [&](auto gradients) {
        for (std::size_t i = 0; i < expected.size(); ++i) {
          wrong += std::pow(static_cast<double>(gradients[i]) - expected[i], 2);
          norm += expected[i] * expected[i];
        }
      },
      got.gradients());
  return norm > 0 ? std::sqrt(wrong / norm) : wrong;
}

const std::vector<std::vector<std::uint32_t>> batch_sizes{{7},
                                                          {32, 32},
                                                          {60, 4},
                                                          {64, 0},
                                                          {48, 16, 64},
                                                          {0, 0, 64, 0},
                                                          {48, 16, 60, 4},
                                                          {1, 2, 3, 4, 5},
                                                          {0, 1, 0, 9, 1024, 33, 12, 8}};

/// Sums one bucket a few times, and returns what is in it at the end.
std::vector<std::byte> sum_in_turn(group& peers, element type, const contribution& own, const contribution& expected) {
  const auto summed = peers.make_bucket(type, own.gradients.size(), own.sums.size());
  for (int repetition = 0; repetition < 3; ++repetition) { // nothing may be left over from a step before
    fill(*summed, own);
    summed->start();
    summed->wait();
    EXPECT_LE(relative_error(*summed, expected.gradients), type == element::float32 ? 1e-6 : 1e-12);
    EXPECT_EQ(summed->sums()[0], expected.sums[0]) << "exact";
    EXPECT_EQ(summed->sums()[1], expected.sums[1]) << "exact";
  }
  return bytes_of(*summed);
}

TEST(Sum, EqualsTheSlowOneForUnequalAndEmptyBatchesAndManySizes) {
  for (const auto& batches : batch_sizes) {
    const auto size = static_cast<std::uint32_t>(batches.size());
    for (const auto type : {element::float32, element::float64}) {
      std::vector<std::vector<std::vector<std::byte>>> results(size);
      run_ranks(size, [&](std::uint32_t rank, group& peers) {
        for (const std::size_t gradients : {0U, 1U, 2U, 7U, 8U, 1000U, 65'537U}) {
          const auto drawn = draw(batches, gradients, gradients + size);
          results[rank].push_back(sum_in_turn(peers, type, drawn[rank], slow_sum(drawn)));
        }
      });
      for (const auto& result : results)
        EXPECT_EQ(result, results[0]) << "the same bits on all of " << size << " ranks";
    }
  }
}

TEST(Sum, RunsForManyBucketsAtOnce) {
  const std::vector<std::uint32_t> batches{5, 0, 11};
  run_ranks(3, [&](std::uint32_t rank, group& peers) {
    std::vector<std::unique_ptr<bucket>> all;
    for (std::size_t i = 0; i < 20; ++i) {
      all.push_back(peers.make_bucket(element::float32, 100 * i, 2));
      fill(*all.back(), draw(batches, 100 * i, i)[rank]);
      all.back()->start();
    }
    for (std::size_t i = 0; i < 20; ++i) {
      const auto expected = slow_sum(draw(batches, 100 * i, i));
      all[i]->wait();
      EXPECT_LE(relative_error(*all[i], expected.gradients), 1e-6);
      EXPECT_EQ(all[i]->sums()[1], expected.sums[1]);
    }
  });
}

TEST(Sum, OfWhatRidesAlongIsExactWhereTheGradientsAreRounded) {
  run_ranks(3, [](std::uint32_t rank, group& peers) {
    const auto summed = peers.make_bucket(element::float32, 1, 3);
    const double numbers[3][3] = {{16'777'216, 0.1, 1e30}, {1, 0.2, 1}, {1, 0.3, -1e30}};
    std::ranges::copy(numbers[rank], summed->sums().begin());
    std::get<std::span<float>>(summed->gradients())[0] = static_cast<float>(numbers[rank][0]);
    summed->start();
    summed->wait();
    EXPECT_EQ(summed->sums()[0], 16'777'218) << "as a sum of floats it would end at 2^24";
    EXPECT_EQ(summed->sums()[1], 0.6) << "in double, ((0.1 + 0.2) + 0.3) is not";
    EXPECT_EQ(summed->sums()[2], 1);
  });
}

TEST(Sum, OfADivergedRunIsNoNumberOnAllRanks) {
  run_ranks(2, [](std::uint32_t rank, group& peers) {
    const auto summed = peers.make_bucket(element::float32, 1, 2);
    std::get<std::span<float>>(summed->gradients())[0] = rank == 0 ? NAN : 1;
    summed->sums()[0] = 8;
    summed->sums()[1] = rank == 0 ? NAN : 1;
    summed->start();
    summed->wait();
    EXPECT_TRUE(std::isnan(std::get<std::span<float>>(summed->gradients())[0]));
    EXPECT_EQ(summed->sums()[0], 16);
    EXPECT_TRUE(std::isnan(summed->sums()[1]));
  });
}

TEST(Sum, InASilentGroupIsThisWorkersOwn) {
  const auto peers = make_silent_group(2);
  EXPECT_EQ(peers->size(), 2U);
  const auto summed = peers->make_bucket(element::float64, 2, 1);
  std::get<std::span<double>>(summed->gradients())[1] = 3;
  summed->sums()[0] = 4;
  summed->start();
  summed->wait();
  EXPECT_EQ(std::get<std::span<double>>(summed->gradients())[1], 3);
  EXPECT_EQ(summed->sums()[0], 4);
  const std::int64_t row[] = {5, 6};
  EXPECT_EQ(peers->all_gather(row)->wait(), (std::vector<std::int64_t>{5, 6, 0, 0}));
}

} // namespace
} // namespace dynamix::exchange
