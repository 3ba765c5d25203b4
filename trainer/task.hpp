#pragma once

#include "cluster/cluster_file.hpp"

#include <cstdint>

namespace dynamix::trainer {

/// What a model is asked. The data set says so, and a model fits it or does not. In all of them the model gives one
/// logit for each possible answer, the loss is their cross entropy, and the metric the share of answers that are right.
///
/// | task           | inputs                               | logits                | labels           |
/// |----------------|--------------------------------------|-----------------------|------------------|
/// | classification | float32 [b, channels, height, width] | [b, classes]          | int64 [b]        |
/// | next_token     | int64 [b, context]                   | [b, context, classes] | int64 [b, context] |
/// | pair_ranking   | int64 [b, 1 + candidates]            | [b, candidates]       | int64 [b]        |
enum class task : std::uint8_t { classification, next_token, pair_ranking };

constexpr task task_of(cluster::dataset_kind kind) {
  switch (kind) {
  case cluster::dataset_kind::text:
    return task::next_token;
  case cluster::dataset_kind::interactions:
  case cluster::dataset_kind::movielens:
    return task::pair_ranking;
  default:
    return task::classification;
  }
}

} // namespace dynamix::trainer
