#pragma once

#include "cluster/cluster_file.hpp"
#include "trainer/dataset.hpp"

#include <cstdint>
#include <string>

namespace dynamix::trainer {

struct model_options {
  cluster::model_kind kind = cluster::model_kind::lenet;
  double width = 1.0; ///< of vgg11's layers
  cluster::normalization_kind normalization = cluster::normalization_kind::none;
  dataset_shape images;
  std::uint64_t seed = 1;
  interactions_shape interactions = {}; ///< for ncf
};

/// The model that a cluster file asks for.
model_options options_of(const cluster::training& training, std::uint64_t seed);

/// Whether the model can take images of the data set's shape. Returns an empty string, or what is wrong and what to do.
std::string check_model_fits(const cluster::training& training);

} // namespace dynamix::trainer
