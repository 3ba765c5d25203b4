#include "trainer/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace dynamix::trainer {

autocast::autocast(cluster::precision_kind precision, torch::Device device)
    : casts_(precision == cluster::precision_kind::bfloat16), on_cuda_(device.is_cuda()) {
  if (!casts_)
    return;
  if (on_cuda_)
    at::autocast::set_autocast_gpu_dtype(torch::kBFloat16);
  else
    at::autocast::set_autocast_cpu_dtype(torch::kBFloat16);
  enable(true);
}

/// The weights that were cast are kept until then, so that a scope casts each once; the next step has others.
autocast::~autocast() {
  if (!casts_)
    return;
  enable(false);
  at::autocast::clear_cache();
}

void autocast::enable(bool enabled) const {
  if (on_cuda_)
    at::autocast::set_enabled(enabled);
  else
    at::autocast::set_cpu_enabled(enabled);
}

} // namespace dynamix::trainer
