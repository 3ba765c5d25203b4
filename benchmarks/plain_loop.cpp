#include "benchmarks/step_plan.hpp"
#include "client/sampler.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/clock.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/torch.h>

#include <stdexcept>
#include <utility>

namespace dynamix::benchmarks {

namespace {

using group_pointer = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

group_pointer join_group(const step_plan& plan) {
  c10d::TCPStoreOptions store_options;
  store_options.port = plan.port;
  store_options.isServer = plan.rank == 0;
  store_options.numWorkers = plan.world;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store_options);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(plan.rank), static_cast<int>(plan.world),
                                                     options);
}

/// Averages gradients in one flat tensor, of which every gradient is a view from the start, so that nothing is copied.
class flat_average {
public:
  flat_average(const std::vector<torch::Tensor>& parameters, group_pointer group) : group_(std::move(group)) {
    std::int64_t count = 0;
    for (const auto& parameter : parameters)
      count += parameter.numel();
    flat_ = {torch::zeros({count})};
    std::int64_t offset = 0;
    for (auto parameter : parameters) {
      parameter.mutable_grad() = flat_[0].narrow(0, offset, parameter.numel()).view(parameter.sizes());
      offset += parameter.numel();
    }
  }
  void before_backward() { flat_[0].zero_(); }
  void after_backward() {
    group_->allreduce(flat_)->wait();
    flat_[0].div_(group_->getSize());
  }

private:
  group_pointer group_;
  std::vector<torch::Tensor> flat_;
};

/// Averages gradients in buckets, last parameters first, each sent off as soon as backward has filled it.
class overlapped_average {
public:
  overlapped_average(std::vector<torch::Tensor> parameters, group_pointer group, std::size_t bucket_bytes)
      : parameters_(std::move(parameters)), views_(parameters_.size()), group_(std::move(group)) {
    std::vector<std::size_t> members;
    std::size_t bytes = 0;
    for (std::size_t index = parameters_.size(); index-- > 0;) {
      if (!members.empty() && bytes + parameters_[index].nbytes() > bucket_bytes) {
        add_bucket(std::exchange(members, {}));
        bytes = 0;
      }
      members.push_back(index);
      bytes += parameters_[index].nbytes();
    }
    add_bucket(members);
  }
  overlapped_average(const overlapped_average&) = delete;

  void before_backward() {
    for (auto& parameter : parameters_)
      parameter.mutable_grad().reset();
    for (auto& each : buckets_)
      each.missing = each.members;
  }
  void after_backward() {
    for (auto& each : buckets_) {
      each.work->wait();
      each.flat[0].div_(group_->getSize());
    }
    for (std::size_t index = 0; index < parameters_.size(); ++index)
      parameters_[index].mutable_grad() = views_[index];
  }

private:
  struct bucket {
    std::vector<torch::Tensor> flat;
    std::size_t members = 0;
    std::size_t missing = 0;
    c10::intrusive_ptr<c10d::Work> work;
  };

  void add_bucket(const std::vector<std::size_t>& members) {
    std::int64_t count = 0;
    for (const auto index : members)
      count += parameters_[index].numel();
    const auto flat = torch::zeros({count});
    const std::size_t number = buckets_.size();
    buckets_.push_back({.flat = {flat}, .members = members.size(), .missing = 0, .work = {}});
    std::int64_t offset = 0;
    for (const auto index : members) {
      views_[index] = flat.narrow(0, offset, parameters_[index].numel()).view(parameters_[index].sizes());
      offset += parameters_[index].numel();
      parameters_[index].register_hook([this, index, number](torch::Tensor gradient) {
        views_[index].copy_(gradient);
        if (--buckets_[number].missing == 0)
          buckets_[number].work = group_->allreduce(buckets_[number].flat);
      });
    }
  }

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> views_;
  std::vector<bucket> buckets_;
  group_pointer group_;
};

template <class Average>
std::vector<double> time_chunks(const step_plan& plan, torch::nn::Sequential& model, const trainer::dataset& data,
                                Average& average) {
  trainer::batch_loader loader(data, trainer::measure_channels(data));
  client::sampler sampler(1, {data.size()});
  client::leases leases;
  std::uint64_t epochs = 0; // begun
  const std::vector<std::uint32_t> batches(plan.world, plan.batch);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const trainer::steady_clock time;
  std::vector<double> seconds;
  for (std::uint32_t chunk = 0; chunk < plan.warm_up + plan.chunks; ++chunk) {
    const double began = time.now_seconds();
    for (std::uint32_t step = 0; step < plan.chunk_steps; ++step) {
      if (leases.left() < std::uint64_t{plan.world} * plan.batch)
        leases = client::leases({.lanes = std::vector<std::uint32_t>(plan.world, 1)}, sampler.items_of(epochs++));
      leases.lease(batches);
      const auto batch = loader.load(sampler.numbers_of(epochs - 1, leases.next_items(plan.rank, plan.batch)));
      leases.use(leases.next_shares(batches, batches));
      average.before_backward();
      torch::nn::functional::cross_entropy(model->forward(batch.inputs), batch.labels).backward();
      average.after_backward();
      optimizer.step();
    }
    seconds.push_back(time.now_seconds() - began);
  }
  return {seconds.begin() + plan.warm_up, seconds.end()};
}

} // namespace

std::vector<double> run_plain_loop(const step_plan& plan, bool overlapped) {
  at::set_num_threads(1);
  trainer::dataset data;
  const auto problem =
      trainer::load_dataset(cluster::dataset_kind::fashion_mnist, plan.data, trainer::dataset_split::train, data);
  if (!problem.empty())
    throw std::runtime_error(problem);
  auto model = trainer::build_model(trainer::options_of(cluster::training{}, 1));
  auto group = join_group(plan);
  std::vector<double> seconds;
  if (overlapped) {
    overlapped_average average(model->parameters(), group, std::size_t{plan.bucket_kib} * 1024);
    seconds = time_chunks(plan, model, data, average);
  } else {
    flat_average average(model->parameters(), group);
    seconds = time_chunks(plan, model, data, average);
  }
  group->barrier()->wait();
  return seconds;
}

} // namespace dynamix::benchmarks
