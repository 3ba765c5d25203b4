#pragma once

namespace dynamix::trainer {

/// Threads that one tensor operation computes with, in the whole process, >= 1. Includes no Torch.
void set_compute_threads(int threads);

} // namespace dynamix::trainer
