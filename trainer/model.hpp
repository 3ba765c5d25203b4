#pragma once

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Builds the model; its `forward` takes the inputs of its task and gives the logits (trainer/task.hpp). A built-in one
/// is initialised from `options.seed` alone: the same bits on every rank, whatever ran before. `check_model_fits` must
/// have passed. Throws c10::Error where a script cannot be loaded.
///
/// A new model is a file of its own, a row in the table of model.cpp, and its name in the cluster file.
torch::nn::Sequential build_model(const model_options& options);

} // namespace dynamix::trainer
