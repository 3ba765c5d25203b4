#pragma once

/// What a model computes on. Internal to the room: includes Torch.

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dynamix::trainer {

/// Which of this process's CUDA devices the GPU is that nvidia-smi shows by this number, given what
/// $CUDA_VISIBLE_DEVICES says, or null where it is not set; nothing: it is not known. gpu_index of
/// python/dynamix/agent.py is the same for scripts.
std::optional<std::int32_t> cuda_index(std::int32_t gpu, const char* visible);

/// Why training.device, or this one of `gpus`, cannot be had here; empty: it can. Where CUDA is "auto" and not there,
/// `gpus` count for nothing.
std::string check_device(const std::string& wanted, std::span<const std::int32_t> gpus = {});
/// The first of `gpus`, or the first there is.
torch::Device device_for(const std::string& wanted, std::span<const std::int32_t> gpus = {});

} // namespace dynamix::trainer
