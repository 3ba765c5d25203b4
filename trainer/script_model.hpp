#pragma once

/// TorchScript modules as models. Internal to the room: includes Torch. Such a file is code: whoever can write it can
/// make every worker compute what they like.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace dynamix::trainer {

/// Loads `options.script`. Its parameters and buffers keep their names, and the values that the file has. Throws
/// c10::Error.
torch::nn::Sequential build_script(const model_options& options);

/// What can be known of a script without training it: that it is there, is a TorchScript module, has parameters that
/// are all float32 or all float64, no running statistics (those of batch norm would differ between workers), and gives
/// logits of the right shape for two samples. Returns an empty string, or what is wrong.
std::string check_script(const model_options& options);

/// Of the file's bytes, FNV-1a. Returns an empty string, or why it cannot be read.
std::string digest_script(const std::string& path, std::uint64_t& digest);

} // namespace dynamix::trainer
