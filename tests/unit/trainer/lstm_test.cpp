#include "client/random.hpp"
#include "exchange/compression.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/seeds.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/loss.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/sampled_softmax.hpp"
#include "trainer/tensor_records.hpp"
#include "trainer/training_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dynamix::trainer {
namespace {

constexpr std::int64_t vocabulary = 800;
constexpr std::uint32_t draws = 40;
constexpr std::int64_t context = 6;

/// 16 units.
model_options lstm_options(std::uint32_t sampled = draws, std::uint32_t layers = 2) {
  return {.kind = cluster::model_kind::lstm,
          .width = 0.0625,
          .images = {.classes = vocabulary, .context = context},
          .seed = test_seed(3),
          .layers = layers,
          .sampled_softmax = sampled};
}

sampling_model& sampling(torch::nn::Sequential& model) {
  return dynamic_cast<sampling_model&>(*model->ptr(0));
}

/// Sentences in which each word decides what follows, but for every third, which one of six may follow.
dataset sentences(std::uint64_t seed) {
  dataset made;
  made.classes = vocabulary;
  made.context = context;
  storage::splitmix64 random(test_seed(seed));
  std::uint32_t word = 1;
  for (int i = 0; i < 12'000; ++i) {
    made.text.tokens.push_back(static_cast<std::uint16_t>(word));
    word = i % 3 == 0 ? random.below(6) : (word * 7 + 1) % vocabulary;
  }
  for (std::size_t at = 0; at + context < made.text.tokens.size(); at += context)
    made.text.starts.push_back(static_cast<std::uint32_t>(at));
  return made;
}

double probability(std::int64_t number) {
  return std::log((number + 2.0) / (number + 1.0)) / std::log(vocabulary + 1.0);
}

/// One after the other, by going through the vocabulary.
std::vector<std::int64_t> draw_slowly(std::uint64_t seed) {
  storage::splitmix64 random(seed);
  std::vector<std::int64_t> drawn;
  for (std::uint32_t i = 0; i < draws; ++i) {
    double left = static_cast<double>(random.next() >> 11U) * 0x1p-53;
    std::int64_t number = 0;
    while (number + 1 < vocabulary && left >= probability(number))
      left -= probability(number++);
    drawn.push_back(number);
  }
  return drawn;
}

/// By its definition, in double precision, from the logits of the whole vocabulary.
double slow_loss(const torch::Tensor& logits, const torch::Tensor& labels, const std::vector<std::int64_t>& drawn) {
  const auto all = logits.to(torch::kFloat64).reshape({-1, vocabulary});
  const auto flat = labels.reshape(-1);
  double sum = 0;
  for (std::int64_t token = 0; token < flat.size(0); ++token) {
    const auto right = flat[token].item<std::int64_t>();
    const auto logit = [&](std::int64_t number) { return all[token][number].item<double>(); };
    double total = std::exp(logit(right));
    for (const auto number : drawn)
      if (number != right)
        total += std::exp(logit(number)) / (draws * probability(number));
    sum += std::log(total) - logit(right);
  }
  return sum / static_cast<double>(labels.size(1));
}

struct words {
  torch::Tensor inputs;
  torch::Tensor labels;
};

words some_words() {
  const auto data = sentences(1);
  batch_loader loader(data, measure_channels(data));
  const auto batch = loader.load(index_range{3, 4});
  return {batch.inputs.clone(), batch.labels.clone()};
}

TEST(SampledSoftmax, HasTheLossOfItsDefinition) {
  auto model = build_model(lstm_options());
  { // logits that differ
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : model->parameters())
      parameter.mul_(8);
  }
  const auto [inputs, labels] = some_words();
  const auto logits = model->forward(inputs).detach();
  ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{4, context, vocabulary}));
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    sampling(model).begin_step(seed);
    const auto [compared, right] = sampling(model).answer(inputs, labels);
    const double expected = slow_loss(logits, labels, draw_slowly(seed));
    EXPECT_NEAR(loss_sum(compared, right).item<double>(), expected, 1e-5 * expected) << seed;
  }
}

TEST(SampledSoftmax, EstimatesTheWholeVocabularyWithoutBias) {
  auto model = build_model(lstm_options());
  const auto [inputs, labels] = some_words();
  const torch::NoGradGuard no_gradients;
  const auto logits = model->forward(inputs);
  const double whole = logits[0][2].exp().sum().item<double>();
  double estimated = 0;
  constexpr int seeds = 1000;
  for (int seed = 0; seed < seeds; ++seed) {
    sampling(model).begin_step(static_cast<std::uint64_t>(seed));
    const auto compared = sampling(model).answer(inputs, labels).logits;
    estimated += compared[0][2].exp().sum().item<double>() / seeds;
  }
  EXPECT_NEAR(estimated, whole, 0.03 * whole); // three deviations of the mean, about
}

TEST(SampledSoftmax, DrawsTheSameForTheSameSeedAndFrequentWordsMoreOften) {
  std::map<std::int64_t, int> counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto drawn = draw_answers(seed, draws, vocabulary);
    EXPECT_TRUE(torch::equal(drawn.numbers, draw_answers(seed, draws, vocabulary).numbers));
    for (std::int64_t i = 0; i < drawn.numbers.size(0); ++i)
      ++counts[drawn.numbers[i].item<std::int64_t>()];
  }
  EXPECT_GT(counts[0], 150) << "nearly each time";
  EXPECT_LT(counts[400], 20);
  EXPECT_LT(counts.rbegin()->first, vocabulary);
  EXPECT_FALSE(torch::equal(draw_answers(1, draws, vocabulary).numbers, draw_answers(2, draws, vocabulary).numbers));
}

TEST(SampledSoftmax, HasSparseGradientsThatAreThoseOfItsLoss) {
  auto model = build_model(lstm_options());
  auto dense = build_model(lstm_options(0));
  ASSERT_EQ(restore_model(model_records(*model), *dense), "");
  const auto [inputs, labels] = some_words();
  sampling(model).begin_step(9);
  const auto [compared, right] = sampling(model).answer(inputs, labels);
  loss_sum(compared, right).backward();

  // The same from the logits of the whole vocabulary, by Torch's own differentiation.
  const auto drawn = draw_answers(9, draws, vocabulary);
  const auto logits = dense->forward(inputs);
  const auto own = logits.gather(2, labels.unsqueeze(2));
  const auto hits = labels.unsqueeze(2).eq(drawn.numbers);
  const auto others = logits.index_select(2, drawn.numbers) + drawn.log_weights;
  const auto sums = torch::cat({own, others.masked_fill(hits, -INFINITY)}, 2).logsumexp(2);
  ((sums - own.squeeze(2)).sum() / context).backward();

  const auto expected = dense->named_parameters();
  for (const auto& parameter : model->named_parameters()) {
    const auto& gradient = parameter.value().grad();
    const bool embedding = parameter.key().ends_with("weight") && parameter.value().size(0) == vocabulary;
    EXPECT_EQ(gradient.is_sparse(), embedding) << parameter.key();
    EXPECT_TRUE(torch::allclose(gradient.to_dense(), expected[parameter.key()].grad(), 1e-4, 1e-6)) << parameter.key();
    if (embedding) {
      EXPECT_LT(gradient.coalesce().indices().size(1), 4 * context + draws + 1) << "few rows";
    }
  }
}

TEST(Lstm, ComparesTheWholeVocabularyWhereItIsNotLargerThanWhatIsDrawn) {
  auto model = build_model(lstm_options(vocabulary));
  EXPECT_EQ(dynamic_cast<sampling_model*>(model->ptr(0).get()), nullptr);
  auto drawing = build_model(lstm_options(vocabulary - 1));
  EXPECT_NE(dynamic_cast<sampling_model*>(drawing->ptr(0).get()), nullptr);
  EXPECT_EQ(model_checksum(*model), model_checksum(*drawing)) << "the weights are the same";
}

TEST(Lstm, SeesNoTokenBeforeItsTurn) {
  auto model = build_model(lstm_options());
  const auto tokens = torch::arange(12).view({2, context});
  auto changed = tokens.clone();
  changed[1][3] = 77;
  const auto before = model->forward(tokens);
  const auto after = model->forward(changed);
  EXPECT_TRUE(torch::allclose(before[0], after[0]));
  EXPECT_TRUE(torch::allclose(before[1].narrow(0, 0, 3), after[1].narrow(0, 0, 3)));
  EXPECT_FALSE(torch::allclose(before[1][3], after[1][3]));
  EXPECT_FALSE(torch::allclose(before[1][5], after[1][5])) << "later ones do see it";
}

std::vector<torch::Tensor> gradients_in_parts(std::uint32_t micro_batch) {
  const auto data = sentences(1);
  batch_loader loader(data, measure_channels(data), torch::kCPU, 2);
  const auto peers = exchange::make_silent_group(2);
  steady_clock time;
  const exchange::interruption never;
  training_step step(build_model(lstm_options()), loader, *peers, time, never, {.micro_batch = micro_batch});
  step.begin(client::step_seed(1, 0, 0));
  std::vector<std::uint32_t> samples(60);
  std::iota(samples.begin(), samples.end(), 0U);
  step.run(samples, 1);
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : step.parameters())
    gradients.push_back(parameter.grad().to_dense().clone());
  return gradients;
}

TEST(Lstm, AddsUpTheSparseGradientsOfParts) {
  const auto whole = gradients_in_parts(0);
  const auto parts = gradients_in_parts(16);
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_TRUE(torch::allclose(parts[i], whole[i], 1e-4, 1e-6)) << i;
}

struct trained {
  std::uint64_t checksum = 0;
  double accuracy = 0;
  exchange::compression_counts counts;
};

std::vector<trained> train(exchange::form how, std::uint32_t size, std::uint64_t steps) {
  const auto data = sentences(1);
  const auto test = sentences(2);
  std::vector<trained> results(size);
  exchange::run_ranks(size, [&](std::uint32_t rank, std::unique_ptr<exchange::group>& peers) {
    peers = exchange::compress(std::move(peers), how, results[rank].counts);
    auto model = build_model(lstm_options(draws, 1));
    batch_loader loader(data, measure_channels(data));
    batch_loader test_loader(test, measure_channels(data));
    steady_clock time;
    const exchange::interruption never;
    training_step step(model, loader, *peers, time, never, {});
    cluster::training training;
    training.optimizer = cluster::optimizer_kind::adam;
    optimizer descent(training, step.parameters());
    descent.set_learning_rate(0.02);
    storage::splitmix64 random(rank);
    for (std::uint64_t number = 0; number < steps; ++number) {
      std::vector<std::uint32_t> samples(number % 5 == 4 && rank == 1 ? 0 : 20 + 4 * rank);
      std::ranges::generate(samples, [&] { return random.below(static_cast<std::uint32_t>(data.size())); });
      step.begin(client::step_seed(1, number, rank));
      step.run(samples, 1);
      descent.step();
    }
    results[rank].checksum = model_checksum(*model);
    const auto evaluated = evaluate(model, test_loader, {0, test.size()});
    results[rank].accuracy = evaluated.correct / static_cast<double>(evaluated.count);
  });
  for (const auto& result : results)
    EXPECT_EQ(result.checksum, results[0].checksum) << "the same bits on all ranks";
  return results;
}

TEST(Lstm, EndsWithTheSameParametersHoweverTwoRanksSum) {
  const auto dense = train(exchange::form::none, 2, 20);
  for (const auto how : {exchange::form::union_of_items, exchange::form::gather, exchange::form::lhc}) {
    const auto compressed = train(how, 2, 20);
    EXPECT_EQ(compressed[0].checksum, dense[0].checksum) << static_cast<int>(how);
    EXPECT_EQ(compressed[0].counts.sums, 20U) << "both embeddings in one bucket";
    EXPECT_LT(compressed[0].counts.items, 20U * 2 * vocabulary / 2) << "of which few rows are touched";
  }
}

TEST(Lstm, LearnsFromWhatItDraws) {
  // Always the most frequent word would be 0.06; words follow from those before, 0.72 at best.
  EXPECT_GT(train(exchange::form::union_of_items, 2, 200)[0].accuracy, 0.15);
}

} // namespace
} // namespace dynamix::trainer
