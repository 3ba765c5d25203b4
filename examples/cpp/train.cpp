// A LibTorch training loop that joins Dynamix. With libdynamix-dev installed, two members on one machine:
//
//     cmake -B build -DCMAKE_PREFIX_PATH="$(python3 -c 'import torch; print(torch.__path__[0])')"
//     cmake --build build
//     build/train store 0 2 & build/train store 1 2; wait
//
// Under `dynamix-node exec`, or with DYNAMIX_AGENT set, each member has an agent, and the batch sizes follow what the
// members can do. Without one they stay as they are.

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdio>
#include <cstdlib>
#include <dynamix/torch.hpp>
#include <iostream>

namespace {

constexpr std::int64_t samples = 4096;

/// Points in a square, of two classes: inside of a circle or not.
struct circle : torch::data::datasets::Dataset<circle> {
  torch::Tensor points = [] {
    torch::manual_seed(1);
    return torch::rand({samples, 2}) * 2 - 1;
  }();

  torch::data::Example<> get(std::size_t index) override {
    const auto point = points[static_cast<std::int64_t>(index)];
    return {point, point.square().sum().lt(0.6).to(torch::kInt64)};
  }
  torch::optional<std::size_t> size() const override { return samples; }
};

struct arguments {
  std::string store;
  int rank = 0;
  int members = 1;
};

void train(const arguments& given) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto store = c10::make_intrusive<c10d::FileStore>(given.store, given.members);
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, given.rank, given.members, options);

  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::ReLU(), torch::nn::Linear(32, 2));
  // A member that is given twice the samples of the other, as one with twice its speed would be.
  const auto batch = static_cast<std::uint32_t>(given.rank == 0 ? 64 : 32);
  auto optimizer = dynamix::join(
      model->parameters(), torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
      {.batch = batch, .samples = samples, .local_rank = static_cast<std::uint32_t>(given.rank)},
      dynamix::group_of(gloo));
  auto loader = torch::data::make_data_loader(circle().map(torch::data::transforms::Stack<>()),
                                              optimizer.run().sampler(), torch::data::DataLoaderOptions().workers(2));
  for (int epoch = 0; epoch < 10; ++epoch) {
    double loss_sum = 0;
    std::int64_t steps = 0;
    for (auto& example : *loader) {
      optimizer.zero_grad();
      const auto loss = torch::cross_entropy_loss(model->forward(example.data), example.target);
      loss.backward();
      loss_sum += loss.item<double>();
      optimizer.run().report(loss.item<double>()); // for the page and the ledger; may be left out
      optimizer.step();
      ++steps;
    }
    const auto status = optimizer.run().status();
    if (given.rank == 0)
      std::cout << "epoch " << epoch << ": loss " << loss_sum / static_cast<double>(steps) << ", batch " << status.batch
                << " of " << status.global_batch << "\n";
  }
  torch::NoGradGuard no_gradient;
  circle data;
  const auto inside = data.points.square().sum(1).lt(0.6).to(torch::kInt64);
  const auto right = model->forward(data.points).argmax(1).eq(inside).to(torch::kFloat64).mean().item<double>();
  if (given.rank == 0)
    std::cout << "accuracy " << right << "\n";
}

} // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "usage: train STORE RANK MEMBERS\n";
    return 2;
  }
  try {
    train({words[1], std::atoi(words[2]), std::atoi(words[3])});
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
}
