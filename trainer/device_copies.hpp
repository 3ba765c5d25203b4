#pragma once

/// Copies between the host's memory and a device's that run beside what the device computes. Internal to the room:
/// includes Torch, and of it only what is the same for every kind of device, so that it is compiled without any.

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace dynamix::trainer {

/// A place in what a device does. On the CPU, where everything is done at once, nothing is ever to be waited for.
class device_event {
public:
  device_event() = default;
  /// After what `on` has been given so far.
  explicit device_event(const c10::Stream& on);
  /// The same on this thread's current stream.
  explicit device_event(torch::Device device);
  /// Blocks the host until the device has come there. It looks every 50 us: LibTorch's events of any device kind cannot
  /// be waited for otherwise.
  void wait() const;
  /// What `on` is given from now on waits for it, not the host.
  void block(const c10::Stream& on) const;

private:
  std::optional<c10::Event> event_;
};

/// Memory of the host that stays where it is, so that copies from and to it need no help of the CPU (cudaHostRegister,
/// where the process has it; elsewhere nothing changes but speed). Must end before the memory does.
class pinned_memory {
public:
  pinned_memory(void* begin, std::size_t bytes);
  ~pinned_memory();
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;

private:
  void* begin_ = nullptr; ///< null: it is not
};

/// Copies in one order, on a stream of their own.
class device_copies {
public:
  explicit device_copies(torch::Device device);
  /// Waits for all of them.
  ~device_copies();
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;
  torch::Device device() const { return device_; }
  /// Begins to copy what this thread's current stream has been given to compute `from`. `into` must not be touched
  /// before the event.
  device_event to_host(const torch::Tensor& into, const torch::Tensor& from);
  /// Begins to copy to the device. `from` must not be changed before the next `to_host` into it is there.
  void to_device(const torch::Tensor& into, const torch::Tensor& from);
  /// What this thread's current stream is given from now on waits for all copies.
  void join();

private:
  torch::Device device_;
  std::optional<c10::Stream> stream_; ///< none on the CPU
};

/// For tensors of this device; null on the CPU, whose memory is the host's.
std::unique_ptr<device_copies> copies_for(torch::Device device);

} // namespace dynamix::trainer
