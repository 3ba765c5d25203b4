#pragma once

#include "cluster/cluster_file.hpp"
#include "trainer/dataset.hpp"

#include <cstdint>
#include <string>

namespace dynamix::trainer {

struct model_options {
  cluster::model_kind kind = cluster::model_kind::lenet;
  double width = 1.0; ///< of the layers of vgg, resnet, transformer and lstm
  cluster::normalization_kind normalization = cluster::normalization_kind::none;
  dataset_shape images; ///< of the samples, images or not
  std::uint64_t seed = 1;
  std::uint32_t layers = 4;            ///< of transformer and lstm
  std::uint32_t heads = 4;             ///< of transformer
  std::uint32_t sampled_softmax = 512; ///< of lstm
  std::string script = {};             ///< path of a TorchScript module
};

/// The model that a cluster file asks for; of movielens only its data say how many users and items there are. A
/// relative path of a script starts at the working directory.
model_options options_of(const cluster::training& training, std::uint64_t seed);

/// Units of a layer of the transformer or lstm: 256 times `width`, rounded to a multiple of the heads or of 8.
std::int64_t units_of(const model_options& options);

/// How many samples to evaluate at once: 500, or fewer where the model's largest intermediate result for one sample
/// would make them more than 128 MiB.
std::uint32_t evaluation_batch_of(const cluster::training& training);

/// Whether the model can take samples of the data set's shape. Returns an empty string, or what is wrong and what to
/// do. A script is looked at when it is loaded.
std::string check_model_fits(const cluster::training& training);

} // namespace dynamix::trainer
