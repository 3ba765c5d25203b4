#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::benchmarks {

/// What one rank of a step benchmark trains: LeNet on Fashion-MNIST with SGD and momentum, as in `cluster::training`'s
/// defaults. Steps are timed in chunks; the first `warm_up` chunks are not reported.
struct step_plan {
  std::uint32_t rank = 0;
  std::uint32_t world = 2;
  std::uint16_t port = 0; ///< of the store that rank 0 serves on loopback
  std::uint32_t batch = 64;
  std::uint32_t warm_up = 5;
  std::uint32_t chunks = 30;
  std::uint32_t chunk_steps = 10;
  std::uint32_t bucket_kib = 1024;
  std::string data = "/usr/share/datasets/fashion-mnist";
};

/// The seconds of each chunk of what somebody would write by hand with LibTorch and c10d: equal batches, a mean loss,
/// and the gradients all-reduced in one flat tensor behind backward, or, `overlapped`, in buckets while backward runs.
/// Throws std::exception on failure.
std::vector<double> run_plain_loop(const step_plan& plan, bool overlapped);

} // namespace dynamix::benchmarks
