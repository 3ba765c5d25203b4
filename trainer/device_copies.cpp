#include "trainer/device_copies.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <dlfcn.h>
#include <thread>

namespace dynamix::trainer {
namespace {

c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

} // namespace

device_event::device_event(const c10::Stream& on) : event_(std::in_place, on.device_type()) {
  event_->record(on);
}

device_event::device_event(torch::Device device) {
  if (!device.is_cpu())
    *this = device_event(current_stream(device));
}

void device_event::wait() const {
  constexpr std::chrono::microseconds pause{50};
  while (event_ && !event_->query())
    std::this_thread::sleep_for(pause);
}

void device_event::block(const c10::Stream& on) const {
  if (event_)
    event_->block(on);
}

pinned_memory::pinned_memory(void* begin, std::size_t bytes) {
  using registrar = int (*)(void*, std::size_t, unsigned);
  constexpr int success = 0;
  constexpr unsigned for_all_contexts = 1; // cudaHostRegisterPortable
  if (auto* pin = reinterpret_cast<registrar>(dlsym(RTLD_DEFAULT, "cudaHostRegister")))
    if (bytes > 0 && pin(begin, bytes, for_all_contexts) == success)
      begin_ = begin;
}

pinned_memory::~pinned_memory() {
  using releaser = int (*)(void*);
  if (begin_ != nullptr)
    if (auto* unpin = reinterpret_cast<releaser>(dlsym(RTLD_DEFAULT, "cudaHostUnregister")))
      unpin(begin_);
}

device_copies::device_copies(torch::Device device) : device_(device) {
  if (!device.is_cpu())
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

device_copies::~device_copies() {
  if (!stream_)
    return;
  try {
    device_event(*stream_).wait();
  } catch (const c10::Error&) { // a device that fails copies nothing more
  }
}

device_event device_copies::to_host(const torch::Tensor& into, const torch::Tensor& from) {
  if (!stream_) {
    into.copy_(from);
    return {};
  }
  device_event(current_stream(device_)).block(*stream_);
  const c10::StreamGuard beside(*stream_);
  into.copy_(from, /*non_blocking=*/true);
  return device_event(*stream_);
}

void device_copies::to_device(const torch::Tensor& into, const torch::Tensor& from) {
  if (!stream_) {
    into.copy_(from);
    return;
  }
  const c10::StreamGuard beside(*stream_);
  into.copy_(from, /*non_blocking=*/true);
}

void device_copies::join() {
  if (stream_)
    device_event(*stream_).block(current_stream(device_));
}

std::unique_ptr<device_copies> copies_for(torch::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<device_copies>(device);
}

} // namespace dynamix::trainer
