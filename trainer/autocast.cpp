#include "trainer/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace dynamix::trainer {

autocast::autocast(cluster::precision_kind precision, torch::Device device)
    : casts_(precision == cluster::precision_kind::bfloat16), device_(device.type()) {
  if (!casts_)
    return;
  at::autocast::set_autocast_dtype(device_, torch::kBFloat16);
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
  at::autocast::set_autocast_enabled(device_, enabled);
}

no_autocast_on_cpu::no_autocast_on_cpu() : was_enabled_(at::autocast::is_autocast_enabled(torch::kCPU)) {
  at::autocast::set_autocast_enabled(torch::kCPU, false);
}

no_autocast_on_cpu::~no_autocast_on_cpu() {
  at::autocast::set_autocast_enabled(torch::kCPU, was_enabled_);
}

} // namespace dynamix::trainer
