#pragma once

/// What a model computes on. Internal to the room: includes Torch.

#include <torch/torch.h>

#include <string>

namespace dynamix::trainer {

/// Why training.device cannot be had here; empty: it can.
std::string check_device(const std::string& wanted);
torch::Device device_for(const std::string& wanted);

} // namespace dynamix::trainer
