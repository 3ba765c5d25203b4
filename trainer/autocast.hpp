#pragma once

/// Mixed precision of forward passes. Internal to the room: includes Torch.

#include "cluster/cluster_file.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// While it lives, this thread's forward passes compute in `precision`: with bfloat16 PyTorch casts what products and
/// convolutions take, and leaves in float32 what needs it. Parameters, and so their gradients, stay as they are;
/// float64 is left alone. Backward passes follow their forward passes, inside the scope or not.
class autocast {
public:
  autocast(cluster::precision_kind precision, torch::Device device);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

private:
  void enable(bool enabled) const;

  bool casts_;
  torch::DeviceType device_;
};

/// While it lives, this thread's forward passes on the CPU compute in the precision of their tensors, inside an autocast
/// too: for operations that PyTorch has in bfloat16 on some CPUs only.
class no_autocast_on_cpu {
public:
  no_autocast_on_cpu();
  ~no_autocast_on_cpu();
  no_autocast_on_cpu(const no_autocast_on_cpu&) = delete;
  no_autocast_on_cpu& operator=(const no_autocast_on_cpu&) = delete;

private:
  bool was_enabled_;
};

} // namespace dynamix::trainer
