// One training by the built-in trainer, by the C++ SDK and by the Python package: the same samples, the same decisions
// in force in the same steps, the same parameters.

#include "tests/temporary_directory.hpp"
#include "tests/unit/client/scripted_agent.hpp"
#include "tests/unit/has_torch.hpp"
#include "tests/unit/trainer/tiny_training.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <array>
#include <chrono>
#include <dynamix/torch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>

namespace dynamix {
namespace {

constexpr std::uint32_t members = 2;
constexpr std::uint64_t samples = 1000;
constexpr int epochs = 4;
constexpr std::uint32_t initial_batch = 16;
constexpr std::uint32_t window_steps = 10;
constexpr std::uint32_t settle_steps = 2; ///< behind a window, until the decision on it is due
constexpr double learning_rate = 0.02;
constexpr double momentum = 0.9;
constexpr std::uint64_t seed = 7;

/// By member, decided on window 1, 2, ...
const std::vector<std::array<std::uint32_t, members>> batches_by_window{{24, 8},  {5, 40}, {16, 16}, {1, 30}, {31, 2},
                                                                        {12, 12}, {20, 9}, {7, 33},  {18, 14}};

messages::decision decision_on(std::uint64_t window, std::uint32_t rank) {
  return trainer::decide(window, rank, batches_by_window.at(window - 1)[rank], window * window_steps + settle_steps);
}

/// What a trainer tells of a window, and its member's parameters in the end.
struct told_window {
  std::uint64_t window = 0;
  std::uint64_t first_step = 0;
  std::uint32_t batch = 0;
  messages::decision_key decision;
  std::uint64_t global_batch = 0;
  std::uint64_t epoch = 0;
  std::uint64_t epoch_samples = 0;
  messages::training_statistics training;
};

struct member_result {
  std::vector<told_window> windows;
  messages::decision_counts decisions;
  std::vector<float> parameters;
};

std::vector<float> numbers_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<float> numbers;
  for (const auto& tensor : tensors) {
    const auto flat = tensor.detach().reshape({-1}).contiguous();
    numbers.insert(numbers.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return numbers;
}

/// Where the members of one trainer meet their agents.
class meeting_place {
public:
  std::string path() const { return directory_.path(); }
  std::string socket(std::uint32_t rank) const { return path() + "/" + std::to_string(rank) + ".sock"; }
  /// A file that is there once the agent has sent what it decided on a window.
  std::string mark(std::uint32_t rank, std::uint64_t window) const {
    return path() + "/decided-" + std::to_string(rank) + "-" + std::to_string(window);
  }
  /// Lets decisions arrive before the next step, however slow the agent is.
  void await_decision(std::uint32_t rank, std::uint64_t window) const {
    for (int i = 0; i < 20'000 && !std::filesystem::exists(mark(rank, window)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

private:
  temporary_directory directory_;
};

/// Decides by `batches_by_window`.
class planning_agent {
public:
  planning_agent(const meeting_place& place, std::uint32_t rank)
      : place_(place), rank_(rank), agent_(place.socket(rank)), thread_([this] { serve(); }) {}

  member_result result() {
    thread_.join();
    return result_;
  }

private:
  void serve() {
    constexpr int start_ms = 100'000; // Python imports Torch before it comes
    if (!agent_.accept(start_ms) || !agent_.read_a<messages::client_hello>())
      return;
    agent_.send(messages::client_welcome{.host = "ana",
                                         .rank = rank_,
                                         .workers = members,
                                         .window_steps = window_steps,
                                         .lowest_batch = 1,
                                         .highest_batch = 64,
                                         .initial_batch = initial_batch,
                                         .rule = messages::rate_rule::linear,
                                         .seed = seed});
    if (!agent_.read_a<messages::heartbeat>(start_ms))
      return;
    agent_.send(messages::placement{.generation = 1, .members = {0, 1}, .source = 0, .store_prefix = "g1"});
    while (auto next = agent_.read())
      if (const auto* report = std::get_if<messages::window_report>(&*next)) {
        take(*report);
      } else if (const auto* farewell = std::get_if<messages::farewell>(&*next)) {
        result_.decisions = farewell->decisions;
        break;
      }
    agent_.hang_up();
  }

  void take(const messages::window_report& report) {
    result_.windows.push_back({report.window, report.first_step, report.batch, report.decision, report.global_batch,
                               report.epoch, report.epoch_samples, report.training});
    if (report.window <= batches_by_window.size())
      agent_.send(decision_on(report.window, rank_));
    std::ofstream(place_.mark(rank_, report.window)) << "sent\n";
  }

  const meeting_place& place_;
  const std::uint32_t rank_;
  client::scripted_agent agent_;
  member_result result_;
  std::jthread thread_;
};

class Parity : public testing::Test {
protected:
  Parity() {
    const auto all = trainer::batch_loader(train_, trainer::measure_channels(train_)).load({0, samples});
    images_ = all.inputs.clone();
    labels_ = all.labels.clone();
  }

  std::vector<member_result> train_built_in() const {
    std::vector<trainer::rank_options> options(members);
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      auto& loop = options[rank].loop;
      loop.training.learning_rate = learning_rate;
      loop.training.momentum = momentum;
      loop.training.rule = cluster::learning_rate_rule::linear;
      loop.training.epochs = epochs;
      loop.batch.initial = initial_batch;
      loop.window_steps = window_steps;
      loop.seed = seed;
      for (std::uint64_t window = 1; window <= batches_by_window.size(); ++window)
        options[rank].arrivals[window] = {decision_on(window, rank)};
    }
    std::vector<member_result> results;
    for (const auto& rank : trainer::train_ranks(options, train_, test_)) {
      member_result result{.windows = {}, .decisions = rank.decisions, .parameters = numbers_of(rank.parameters)};
      for (const auto& record : rank.windows)
        result.windows.push_back({record.window, record.first_step, record.batch, record.decision, record.global_batch,
                                  record.epoch, record.epoch_samples, record.statistics});
      results.push_back(std::move(result));
    }
    return results;
  }

  /// `train` runs all members, which find their agents in the place, and returns their parameters.
  template <class Train>
  static std::vector<member_result> train_with_agents(Train train) {
    const meeting_place place;
    planning_agent first(place, 0);
    planning_agent second(place, 1);
    const std::vector<std::vector<float>> parameters = train(place);
    std::vector<member_result> results{first.result(), second.result()};
    for (std::uint32_t rank = 0; rank < members; ++rank)
      results[rank].parameters = parameters[rank];
    return results;
  }

  std::vector<member_result> train_cpp() const {
    return train_with_agents([this](const meeting_place& place) {
      auto store = c10::make_intrusive<c10d::HashStore>();
      std::vector<std::vector<float>> parameters(members);
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < members; ++rank)
        threads.emplace_back([&, rank] { parameters[rank] = train_cpp_member(place, rank, store); });
      threads.clear();
      return parameters;
    });
  }

  std::vector<float> train_cpp_member(const meeting_place& place, std::uint32_t rank,
                                      const c10::intrusive_ptr<c10d::HashStore>& store) const {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank), members, options);
    auto model = trainer::tiny_model();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(learning_rate).momentum(momentum));
    auto run = join(
        model->parameters(), optimizer,
        {.batch = initial_batch, .samples = samples, .seed = seed, .noise_interval = 1, .agent = place.socket(rank)},
        group_of(gloo));
    auto loader =
        torch::data::make_data_loader(labelled_images(images_, labels_).map(torch::data::transforms::Stack<>()),
                                      run.sampler(), torch::data::DataLoaderOptions().workers(0));
    std::uint64_t steps = 0;
    for (int epoch = 0; epoch < epochs; ++epoch)
      for (auto& batch : *loader) {
        optimizer.zero_grad();
        const auto logits = model->forward(batch.data);
        const auto loss = torch::cross_entropy_loss(logits, batch.target);
        loss.backward();
        run.report(loss.item<double>(), logits.argmax(1).eq(batch.target).to(torch::kFloat64).mean().item<double>());
        run.step();
        if (++steps % window_steps == 0)
          place.await_decision(rank, steps / window_steps);
      }
    run.finish();
    return numbers_of(model->parameters());
  }

  std::vector<member_result> train_python() const {
    return train_with_agents([this](const meeting_place& place) {
      write(place.path() + "/images", images_);
      write(place.path() + "/labels", labels_);
      write(place.path() + "/parameters", torch::cat(flat(trainer::tiny_model()->parameters())));
      std::ostringstream command;
      command << PYTHON << ' ' << SOURCE << "/tests/python/parity.py " << place.path() << ' ' << epochs << ' '
              << initial_batch << ' ' << learning_rate << ' ' << momentum << ' ' << seed << ' ' << window_steps << " > "
              << place.path() << "/said 2>&1";
      ::setenv("DYNAMIX_LIBRARY", DYNAMIX_LIBRARY, 1);
      const int status = std::system(command.str().c_str());
      EXPECT_EQ(status, 0) << text_of(place.path() + "/said");
      std::vector<std::vector<float>> parameters;
      for (std::uint32_t rank = 0; rank < members; ++rank)
        parameters.push_back(read(place.path() + "/trained-" + std::to_string(rank)));
      return parameters;
    });
  }

private:
  struct labelled_images : torch::data::datasets::Dataset<labelled_images> {
    labelled_images(torch::Tensor all_images, torch::Tensor all_labels)
        : images(std::move(all_images)), labels(std::move(all_labels)) {}
    torch::data::Example<> get(std::size_t index) override {
      const auto row = static_cast<std::int64_t>(index);
      return {images[row], labels[row]};
    }
    torch::optional<std::size_t> size() const override { return samples; }
    torch::Tensor images;
    torch::Tensor labels;
  };

  static std::vector<torch::Tensor> flat(const std::vector<torch::Tensor>& tensors) {
    std::vector<torch::Tensor> all;
    for (const auto& tensor : tensors)
      all.push_back(tensor.detach().reshape({-1}));
    return all;
  }

  // Files of plain numbers, as numpy.fromfile reads them.

  static void write(const std::string& path, const torch::Tensor& numbers) {
    const auto whole = numbers.contiguous();
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(whole.data_ptr()), static_cast<std::streamsize>(whole.nbytes()));
  }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static std::vector<float> read(const std::string& path) {
    const auto bytes = text_of(path);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
    return numbers;
  }

  const trainer::dataset train_ = trainer::tiny_dataset(samples, 1);
  const trainer::dataset test_ = trainer::tiny_dataset(40, 2);
  torch::Tensor images_; ///< as the built-in trainer sees them
  torch::Tensor labels_;
};

void expect_near(double left, double right, double relative, const std::string& what) {
  EXPECT_NEAR(left, right, relative * std::max({1e-3, std::abs(left), std::abs(right)})) << what;
}

/// Whole numbers are the same; means of floats are nearly so, since their sums are taken in another order.
void expect_same(const member_result& left, const member_result& right) {
  ASSERT_EQ(left.windows.size(), right.windows.size());
  for (std::size_t i = 0; i < left.windows.size(); ++i) {
    const auto& one = left.windows[i];
    const auto& other = right.windows[i];
    const auto window = "window " + std::to_string(one.window);
    EXPECT_EQ(one.window, other.window);
    EXPECT_EQ(one.first_step, other.first_step) << window;
    EXPECT_EQ(one.batch, other.batch) << window;
    EXPECT_EQ(one.decision, other.decision) << window;
    EXPECT_EQ(one.global_batch, other.global_batch) << window;
    EXPECT_EQ(one.epoch, other.epoch) << window;
    EXPECT_EQ(one.epoch_samples, other.epoch_samples) << window;
    EXPECT_EQ(one.training.steps, other.training.steps) << window;
    EXPECT_EQ(one.training.samples, other.training.samples) << window;
    expect_near(one.training.accuracy, other.training.accuracy, 1e-9, window + ": accuracy");
    expect_near(one.training.loss, other.training.loss, 1e-4, window + ": loss");
    expect_near(one.training.gradient_norm, other.training.gradient_norm, 1e-4, window + ": gradient norm");
    expect_near(one.training.learning_rate, other.training.learning_rate, 1e-9, window + ": learning rate");
    EXPECT_EQ(one.training.gradient_valid, other.training.gradient_valid) << window;
    expect_near(one.training.noise_scale, other.training.noise_scale, 1e-3, window + ": noise scale");
  }
  EXPECT_EQ(left.decisions.received, right.decisions.received);
  EXPECT_EQ(left.decisions.applied, right.decisions.applied);
  EXPECT_EQ(left.decisions.late, right.decisions.late);
  ASSERT_EQ(left.parameters.size(), right.parameters.size());
  float largest = 0;
  for (std::size_t i = 0; i < left.parameters.size(); ++i)
    largest = std::max(largest, std::abs(left.parameters[i] - right.parameters[i]));
  EXPECT_LT(largest, 1e-6F);
}

TEST_F(Parity, TheBuiltInTrainerAndBothSdksTrainAlike) {
  const auto built_in = train_built_in();
  const auto cpp = train_cpp();
  std::uint64_t steps = 0;
  for (const auto& window : built_in[0].windows)
    steps += window.training.steps;
  EXPECT_GE(steps, 100U);
  EXPECT_EQ(built_in[0].decisions.applied, batches_by_window.size());
  for (std::uint32_t rank = 0; rank < members; ++rank)
    expect_same(built_in[rank], cpp[rank]);
  if (!has_torch(PYTHON))
    GTEST_SKIP() << PYTHON << " has no torch (pip install torch): the Python package was left out";
  const auto python = train_python();
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    expect_same(built_in[rank], python[rank]);
    expect_same(cpp[rank], python[rank]);
  }
}

} // namespace
} // namespace dynamix
