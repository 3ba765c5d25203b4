#pragma once

/// What a model computes on. Internal to the room: includes Torch.

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>

namespace dynamix::trainer {

/// Why training.device, or this one of `gpus`, cannot be had here; empty: it can. Where CUDA is "auto" and not there,
/// `gpus` count for nothing.
std::string check_device(const std::string& wanted, std::span<const std::int32_t> gpus = {});
/// The first of `gpus`, or the first there is.
torch::Device device_for(const std::string& wanted, std::span<const std::int32_t> gpus = {});

} // namespace dynamix::trainer
