#pragma once

#include "cluster/cluster_file.hpp"
#include "trainer/batch_loader.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <functional>

namespace dynamix::trainer {

/// Sums over samples, so that those of all workers can be added up.
struct evaluation_sums {
  double loss = 0;    ///< cross entropy, natural logarithm
  double correct = 0; ///< see count_correct
  std::uint64_t count = 0;
};

inline constexpr std::uint32_t evaluation_batch = 500;

/// Runs the model over samples [first, first + count) of the loader's data, of which only each `stride`-th counts,
/// `batch` at a time, in `precision`, without gradients. The workers' ranges come from split_range over their batch
/// sizes. The model's mode (training or not) is restored. Where the memory does not hold a batch, it goes on with
/// smaller ones. Between two batches it asks `given_up`, if there is one, and returns what it has when told so.
evaluation_sums evaluate(torch::nn::Sequential& model, batch_loader& loader, index_range range,
                         std::uint32_t batch = evaluation_batch, const std::function<bool()>& given_up = {},
                         std::uint64_t stride = 1,
                         cluster::precision_kind precision = cluster::precision_kind::float32);

} // namespace dynamix::trainer
