// The C++ SDK on real Gloo ranks, each a thread of this process.

#include "tests/temporary_directory.hpp"
#include "tests/unit/client/scripted_agent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <array>
#include <dynamix/torch.hpp>
#include <set>
#include <sstream>
#include <thread>

namespace dynamix {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t samples = 103;

/// Sample i and its number, so that a test sees which one a batch holds.
struct points : torch::data::datasets::Dataset<points> {
  torch::data::Example<> get(std::size_t index) override {
    const auto value = static_cast<double>(index) / samples;
    return {torch::tensor({value, value * value}, torch::kFloat64),
            torch::tensor({static_cast<double>(index)}, torch::kFloat64)};
  }
  torch::optional<std::size_t> size() const override { return samples; }
};

torch::Tensor loss_of(torch::nn::Linear& model, const torch::Tensor& inputs) {
  const auto wanted = (3 * inputs.select(1, 0) - inputs.select(1, 1)).unsqueeze(1);
  return torch::mse_loss(model->forward(inputs), wanted);
}

torch::nn::Linear make_model() {
  torch::nn::Linear model(2, 1);
  model->to(torch::kFloat64);
  torch::NoGradGuard no_gradient;
  model->weight.fill_(0.25);
  model->bias.fill_(-0.5);
  return model;
}

std::vector<double> parameters_of(const torch::nn::Module& model) {
  std::vector<double> parameters;
  for (const auto& parameter : model.parameters())
    for (std::int64_t i = 0; i < parameter.numel(); ++i)
      parameters.push_back(parameter.reshape({-1})[i].item<double>());
  return parameters;
}

struct trained {
  std::vector<std::vector<std::int64_t>> steps; ///< numbers of each step's samples, those that do not count too
  std::vector<double> parameters;
  std::vector<std::uint64_t> state;
  std::string problem; ///< of the end
  std::string logged;
};

struct plan {
  std::vector<std::uint32_t> batches;
  int epochs = 2;
  std::size_t workers = 0;              ///< of the data loader
  std::vector<std::uint64_t> from = {}; ///< a state to go on from
  int leaver = -1;                      ///< the member whose loop throws behind its last epoch
  bool finishes = true;                 ///< by finish, not by the optimiser's end
  double weight = 0;                    ///< that each member tells in each step; 0: none
  std::size_t accumulated = 1;          ///< batches of a step
};

void train(const plan& how, int rank, const c10::intrusive_ptr<c10d::HashStore>& store, trained& result) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, static_cast<int>(how.batches.size()), options);
  auto model = make_model();
  auto optimizer =
      join(model->parameters(), torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
           {.batch = how.batches[static_cast<std::size_t>(rank)],
            .samples = samples,
            .seed = 5,
            .agent = "",
            .log = [&result](const std::string& line) { result.logged += line + "\n"; }},
           group_of(gloo));
  auto& run = optimizer.run();
  if (!how.from.empty())
    run.restore(how.from);
  auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()), run.sampler(),
                                              torch::data::DataLoaderOptions().workers(how.workers));
  for (int epoch = 0; epoch < how.epochs; ++epoch)
    for (auto& batch : *loader) {
      const auto numbers = batch.target.to(torch::kInt64).contiguous();
      result.steps.emplace_back(numbers.data_ptr<std::int64_t>(), numbers.data_ptr<std::int64_t>() + numbers.numel());
      (loss_of(model, batch.data) / static_cast<double>(how.accumulated)).backward();
      if (result.steps.size() % how.accumulated != 0) {
        run.accumulate();
        continue;
      }
      if (how.weight > 0)
        run.weight(how.weight);
      optimizer.step();
      optimizer.zero_grad();
    }
  result.state = run.state();
  if (rank == how.leaver)
    throw std::runtime_error("a bad file");
  if (!how.finishes)
    return;
  run.finish();
  result.parameters = parameters_of(*model);
}

std::vector<trained> train_ranks(const plan& how) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<trained> results(how.batches.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < how.batches.size(); ++rank)
    ranks.emplace_back([&, rank] {
      try {
        train(how, static_cast<int>(rank), store, results[rank]);
      } catch (const std::exception& problem) {
        results[rank].problem = problem.what();
      }
    });
  for (auto& rank : ranks)
    rank.join();
  return results;
}

/// One process that trains on the joined batches.
std::vector<double> train_joined(const std::vector<trained>& ranks) {
  auto model = make_model();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (std::size_t step = 0; step < ranks[0].steps.size(); ++step) {
    std::vector<torch::Tensor> inputs;
    for (const auto& rank : ranks)
      for (const auto number : rank.steps[step])
        inputs.push_back(points().get(static_cast<std::size_t>(number)).data);
    optimizer.zero_grad();
    loss_of(model, torch::stack(inputs)).backward();
    optimizer.step();
  }
  return parameters_of(*model);
}

TEST(TorchSdk, TrainsOnUnequalBatchesAsOnTheJoinedOne) {
  const auto ranks = train_ranks({.batches = {16, 5}});
  const auto joined = train_joined(ranks);
  ASSERT_EQ(ranks[0].parameters, ranks[1].parameters);
  for (std::size_t i = 0; i < joined.size(); ++i)
    EXPECT_NEAR(ranks[0].parameters[i], joined[i], 1e-12);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    std::multiset<std::int64_t> seen;
    for (const auto& rank : ranks)
      for (std::size_t step = 0; step < 5; ++step)
        seen.insert(rank.steps[epoch * 5 + step].begin(), rank.steps[epoch * 5 + step].end());
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(samples));
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), static_cast<std::size_t>(samples));
  }
}

TEST(TorchSdk, TrainsTheSameWithLoadersThatFetchAhead) {
  const auto plain = train_ranks({.batches = {16, 5}});
  const auto ahead = train_ranks({.batches = {16, 5}, .workers = 3});
  EXPECT_EQ(plain[0].steps, ahead[0].steps);
  EXPECT_EQ(plain[1].parameters, ahead[1].parameters);
}

TEST(TorchSdk, CountsNothingOfAMemberWithoutSamples) {
  // The last step of 103 samples has one, for the first member.
  const auto ranks = train_ranks({.batches = {33, 1}, .epochs = 1});
  ASSERT_EQ(ranks[1].steps.back().size(), 1U) << "a batch that does not count";
  auto counted = ranks;
  counted[1].steps.back().clear();
  const auto joined = train_joined(counted);
  for (std::size_t i = 0; i < joined.size(); ++i)
    EXPECT_NEAR(ranks[0].parameters[i], joined[i], 1e-12);
}

TEST(TorchSdk, CountsNoWeightOfAMemberWithoutSamples) {
  // All tell one weight in each step, also in the last one, which has a sample for the first member alone.
  const auto ranks = train_ranks({.batches = {17, 17}, .epochs = 1, .weight = 5});
  const auto counted = ranks[0].steps.size() - 1;
  ASSERT_EQ(ranks[0].steps[counted].size(), 1U);
  ASSERT_EQ(ranks[1].steps[counted].size(), 1U) << "a batch that does not count";
  auto without = ranks;
  without[1].steps[counted].clear();
  const auto joined = train_joined(without);
  for (std::size_t i = 0; i < joined.size(); ++i)
    EXPECT_NEAR(ranks[0].parameters[i], joined[i], 1e-12);
}

TEST(TorchSdk, CountsEachBatchThatIsAccumulated) {
  auto model = make_model();
  auto optimizer = join(model->parameters(), torch::optim::SGD(model->parameters(), 0.1),
                        {.batch = 26, .samples = samples, .agent = ""});
  auto& run = optimizer.run();
  auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()), run.sampler(),
                                              torch::data::DataLoaderOptions());
  int batches = 0;
  for (auto& batch : *loader) {
    loss_of(model, batch.data).backward();
    if (++batches % 2 == 1) {
      run.accumulate();
      continue;
    }
    optimizer.step();
    EXPECT_EQ(run.status().samples, batches == 2 ? 52U : 103U);
  }
  EXPECT_EQ(batches, 4);
}

/// The mean of the batches of each rank that have samples, weighted by these.
std::vector<double> train_accumulated(const std::vector<trained>& ranks, std::size_t batches) {
  auto model = make_model();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (std::size_t first = 0; first < ranks[0].steps.size(); first += batches) {
    auto loss = torch::zeros({}, torch::kFloat64);
    double total = 0;
    for (const auto& rank : ranks) {
      auto own_loss = torch::zeros({}, torch::kFloat64);
      double own = 0;
      double counted = 0;
      for (std::size_t i = first; i < first + batches; ++i) {
        std::vector<torch::Tensor> inputs;
        for (const auto number : rank.steps[i])
          inputs.push_back(points().get(static_cast<std::size_t>(number)).data);
        if (inputs.empty())
          continue;
        own_loss = own_loss + loss_of(model, torch::stack(inputs));
        own += static_cast<double>(inputs.size());
        ++counted;
      }
      loss = loss + own_loss / counted * own;
      total += own;
    }
    optimizer.zero_grad();
    (loss / total).backward();
    optimizer.step();
  }
  return parameters_of(*model);
}

TEST(TorchSdk, CountsNoStandInAmongTheBatchesOfAStep) {
  for (const std::size_t workers : {0, 3}) { // of a data loader that has the stand-in early, too
    const auto ranks = train_ranks({.batches = {33, 1}, .epochs = 1, .workers = workers, .accumulated = 2});
    ASSERT_EQ(ranks[1].steps.size(), 4U);
    auto counted = ranks;
    counted[1].steps.back().clear();
    const auto expected = train_accumulated(counted, 2);
    ASSERT_EQ(ranks[0].parameters.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(ranks[0].parameters[i], expected[i], 1e-12);
    EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  }
}

TEST(TorchSdk, EndsAsFailedWhereAnotherMemberThrows) {
  const auto ranks = train_ranks({.batches = {16, 5}, .epochs = 1, .leaver = 1});
  EXPECT_EQ(ranks[1].problem, "a bad file");
  EXPECT_THAT(ranks[0].problem, HasSubstr("another member has ended"));
}

TEST(TorchSdk, LogsThatAnotherMemberHasThrownWhereNobodyCallsFinish) {
  const auto ranks = train_ranks({.batches = {16, 5}, .epochs = 1, .leaver = 1, .finishes = false});
  EXPECT_EQ(ranks[0].problem, "");
  EXPECT_THAT(ranks[0].logged, HasSubstr("another member has ended"));
}

TEST(TorchSdk, WaitsForTheOthersWhereItsOptimiserEnds) {
  const auto ranks = train_ranks({.batches = {16, 5}, .epochs = 1, .finishes = false});
  EXPECT_EQ(ranks[0].problem + ranks[1].problem, "");
  EXPECT_THAT(ranks[0].logged + ranks[1].logged, Not(HasSubstr("has ended")));
}

/// Three parameters, of which member 1 alone uses the second, in each step but the last, and nobody the third. Their
/// values behind each step.
std::vector<std::vector<double>> use_some(int rank, const c10::intrusive_ptr<c10d::HashStore>& store) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, 2, options);
  std::vector<torch::Tensor> parameters;
  for (int i = 0; i < 3; ++i)
    parameters.push_back(torch::ones({2}, torch::dtype(torch::kFloat64).requires_grad(true)));
  auto optimizer =
      join(parameters, torch::optim::SGD(parameters, torch::optim::SGDOptions(0.1).momentum(0.5).weight_decay(0.1)),
           {.batch = 1, .samples = 5, .agent = ""}, group_of(gloo));
  auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()),
                                              optimizer.run().sampler(), torch::data::DataLoaderOptions());
  std::vector<std::vector<double>> behind;
  for ([[maybe_unused]] auto& batch : *loader) { // in the third step member 1 has no sample
    optimizer.zero_grad();
    (parameters[0] + (rank == 1 ? 2 * parameters[1] : parameters[0])).sum().backward();
    optimizer.step();
    behind.emplace_back();
    for (const auto& parameter : parameters)
      behind.back().push_back(parameter[0].item<double>());
  }
  return behind;
}

TEST(TorchSdk, LeavesParametersAloneThatNoSampleOfTheStepUses) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::array<std::vector<std::vector<double>>, 2> behind;
  std::thread other([&] { behind[1] = use_some(1, store); });
  behind[0] = use_some(0, store);
  other.join();
  EXPECT_EQ(behind[0], behind[1]);
  ASSERT_EQ(behind[0].size(), 3U);
  EXPECT_NEAR(behind[0][0][1], 1 - 0.1 * (1 + 0.1), 1e-12) << "the mean over two samples, one of which uses it";
  EXPECT_LT(behind[0][1][1], behind[0][0][1]);
  EXPECT_EQ(behind[0][2][1], behind[0][1][1]) << "a stand-in alone has used it";
  for (const auto& step : behind[0])
    EXPECT_EQ(step[2], 1) << "used by nobody";
}

struct told_to_agent {
  messages::farewell farewell;
  messages::window_report window; ///< the first
};

/// What the only member of a training tells its agent until it ends.
told_to_agent hear(client::scripted_agent& agent) {
  told_to_agent told;
  auto welcome = client::welcome_example();
  welcome.workers = 1;
  if (agent.accept() && agent.read_a<messages::client_hello>()) {
    agent.send(welcome);
    if (agent.read_a<messages::heartbeat>()) {
      agent.send(messages::placement{.generation = 1, .members = {0}, .source = 0, .store_prefix = "g1"});
      while (auto next = agent.read()) {
        if (const auto* report = std::get_if<messages::window_report>(&*next); report != nullptr && report->window == 1)
          told.window = *report;
        if (const auto* farewell = std::get_if<messages::farewell>(&*next)) {
          told.farewell = *farewell;
          break;
        }
      }
    }
  }
  agent.hang_up();
  return told;
}

/// What a loop over `steps` tells its agent in the end; its last step throws where `throws`, and where it `leaves` the
/// epoch it says so.
messages::farewell farewell_of(std::size_t steps, bool throws, bool drop_last = false, bool leaves = false) {
  const temporary_directory place;
  const auto socket = place.file("agent.sock");
  client::scripted_agent agent(socket);
  std::thread loop([&] {
    auto model = make_model();
    try {
      auto optimizer = join(model->parameters(), torch::optim::Adam(model->parameters(), 0.01),
                            {.batch = 16, .samples = samples, .drop_last = drop_last, .agent = socket});
      auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()),
                                                  optimizer.run().sampler(), torch::data::DataLoaderOptions());
      std::size_t step = 0;
      for (auto& batch : *loader) {
        optimizer.step([&] {
          optimizer.zero_grad();
          auto loss = loss_of(model, batch.data);
          loss.backward();
          return loss;
        });
        if (++step == steps)
          break;
      }
      if (leaves)
        optimizer.run().leave_epoch();
      if (throws)
        throw std::runtime_error("a bad file");
    } catch (const std::runtime_error&) {
    }
  });
  const auto told = hear(agent);
  loop.join();
  return told.farewell;
}

TEST(TorchSdk, HasCompletedItsTrainingWhereItsOptimiserEndsAtAnEpochsEnd) {
  const auto told = farewell_of(7, false); // of 103 samples by 16
  EXPECT_EQ(told.end, messages::farewell_end::completed) << told.reason;
  EXPECT_EQ(told.steps, 7U);
  const auto without_rest = farewell_of(6, false, true);
  EXPECT_EQ(without_rest.end, messages::farewell_end::completed) << without_rest.reason;
}

TEST(TorchSdk, HasFailedWhereItsOptimiserEndsAmidAnEpoch) {
  const auto told = farewell_of(3, false);
  EXPECT_EQ(told.end, messages::farewell_end::failed);
  EXPECT_EQ(told.steps, 3U);
  EXPECT_EQ(told.reason, "the training loop has ended amid an epoch");
  EXPECT_EQ(farewell_of(3, false, false, true).end, messages::farewell_end::completed) << "it is left on purpose";
}

TEST(TorchSdk, HasFailedWhereAnExceptionEndsItAtAnEpochsEnd) {
  const auto told = farewell_of(7, true);
  EXPECT_EQ(told.end, messages::farewell_end::failed);
  EXPECT_EQ(told.reason, "an exception has ended the training loop");
}

TEST(TorchSdk, TimesNoEvaluationAsPartOfAStep) {
  const temporary_directory place;
  const auto socket = place.file("agent.sock");
  client::scripted_agent agent(socket);
  double passed = 0;
  double evaluated = 0;
  std::thread loop([&] {
    auto model = make_model();
    auto optimizer = join(model->parameters(), torch::optim::Adam(model->parameters(), 0.01),
                          {.batch = 16, .samples = samples, .agent = socket});
    auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()),
                                                optimizer.run().sampler(), torch::data::DataLoaderOptions());
    const double begun = detail::now();
    const auto evaluate = [&] {
      const double before = detail::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      evaluated += detail::now() - before;
    };
    int steps = 0;
    for (int epoch = 0; epoch < 2; ++epoch, evaluate()) // of seven steps
      for (auto& batch : *loader) {
        optimizer.zero_grad();
        loss_of(model, batch.data).backward();
        optimizer.step();
        if (++steps == 3) {
          evaluate();
          optimizer.run().evaluated(1, 1, 0.5);
        } else if (steps == 10) {
          passed = detail::now() - begun - evaluated;
        }
      }
  });
  const auto window = hear(agent).window;
  loop.join();
  EXPECT_EQ(window.training.steps, 10U);
  EXPECT_GT(window.training.iteration_seconds, 0);
  EXPECT_LT(10 * window.training.iteration_seconds, passed);
}

TEST(TorchSdk, LeavesAnOptimiserOfSomebodyElsesWhereItIs) {
  auto model = make_model();
  auto plain = make_model();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::optim::SGD alone(plain->parameters(), 0.1);
  auto run = join(model->parameters(), optimizer, {.batch = 103, .samples = samples, .shuffle = false, .agent = ""});
  auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()), run.sampler(),
                                              torch::data::DataLoaderOptions());
  for (auto& batch : *loader) {
    loss_of(model, batch.data).backward();
    run.step();
    loss_of(plain, batch.data).backward();
    alone.step();
  }
  EXPECT_TRUE(torch::equal(model->weight, plain->weight));
}

TEST(TorchSdk, LeavesSchedulersAndArchivesToTheOptimiserThatItWasMadeOf) {
  auto model = make_model();
  auto optimizer = join(model->parameters(), torch::optim::SGD(model->parameters(), 0.1),
                        {.batch = 52, .samples = samples, .agent = ""});
  torch::optim::StepLR schedule(optimizer, 1, 0.5); // halves behind the second of two steps
  auto loader = torch::data::make_data_loader(points().map(torch::data::transforms::Stack<>()),
                                              optimizer.run().sampler(), torch::data::DataLoaderOptions());
  for (auto& batch : *loader) {
    optimizer.zero_grad();
    loss_of(model, batch.data).backward();
    optimizer.step();
    schedule.step();
  }
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.05);
  std::stringstream file;
  torch::save(optimizer, file);
  torch::optim::SGD other(model->parameters(), 0.1);
  torch::load(other, file);
  EXPECT_DOUBLE_EQ(other.param_groups()[0].options().get_lr(), 0.05);
}

TEST(TorchSdk, GoesOnFromAStateWithTheNextEpochsSamples) {
  const auto whole = train_ranks({.batches = {16, 5}, .epochs = 2});
  const auto first = train_ranks({.batches = {16, 5}, .epochs = 1});
  const auto second = train_ranks({.batches = {16, 5}, .epochs = 1, .from = first[0].state});
  EXPECT_EQ(second[0].steps,
            (std::vector<std::vector<std::int64_t>>(whole[0].steps.begin() + 5, whole[0].steps.end())));
}

} // namespace
} // namespace dynamix
