#include "telemetry/kernel_programs.hpp"

#if DYNAMIX_HAS_BPF
#include "telemetry/libbpf_errors.hpp"
#include "telemetry/program_slots.hpp"

#include <bpf_programs/network.skel.h>
#endif

namespace dynamix::telemetry {

std::string missing_to_build() {
  return DYNAMIX_BPF_MISSING;
}

#if DYNAMIX_HAS_BPF
namespace {

constexpr std::size_t events_max = 256; ///< told at once

class loaded_network_programs final : public network_programs {
public:
  loaded_network_programs() : skeleton_(network_skeleton__open()) {}
  loaded_network_programs(const loaded_network_programs&) = delete;
  loaded_network_programs& operator=(const loaded_network_programs&) = delete;
  ~loaded_network_programs() override {
    ring_buffer__free(ring_);
    network_skeleton__destroy(skeleton_);
  }

  /// What went wrong; empty: they count.
  std::string start(int cgroup, const std::vector<std::uint16_t>& control_ports) {
    if (skeleton_ == nullptr || network_skeleton__load(skeleton_) != 0)
      return libbpf_problem("loading the network programs");
    for (const auto port : control_ports)
      skeleton_->bss->control_ports[port / 8] |= static_cast<std::uint8_t>(1U << port % 8);
    auto& programs = skeleton_->progs;
    auto& links = skeleton_->links;
    for (const auto& [program, link] :
         {std::pair{programs.count_sent, &links.count_sent}, std::pair{programs.count_received, &links.count_received},
          std::pair{programs.watch_connection, &links.watch_connection}}) {
      *link = bpf_program__attach_cgroup(program, cgroup);
      if (*link == nullptr)
        return libbpf_problem("attaching the network programs to the cgroup");
    }
    ring_ = ring_buffer__new(bpf_map__fd(skeleton_->maps.events), &take_event, this, nullptr);
    return ring_ == nullptr ? libbpf_problem("opening the ring buffer of network events") : "";
  }

  std::span<const network_slot> slots() const override { return slots_in_use(skeleton_->bss->slots); }
  std::uint64_t events_dropped() const override {
    return untold_ + __atomic_load_n(&skeleton_->bss->events_dropped, __ATOMIC_RELAXED);
  }

  std::vector<network_event> take_events() override {
    ring_buffer__consume(ring_);
    return std::exchange(taken_, {});
  }

private:
  static int take_event(void* self, void* data, std::size_t size) {
    auto& programs = *static_cast<loaded_network_programs*>(self);
    if (size >= sizeof(network_event) && programs.taken_.size() < events_max)
      programs.taken_.push_back(*static_cast<const network_event*>(data));
    else
      ++programs.untold_;
    return 0;
  }

  network_skeleton* skeleton_;
  ring_buffer* ring_ = nullptr;
  std::vector<network_event> taken_;
  std::uint64_t untold_ = 0; ///< read, but too many at once
};

} // namespace

std::unique_ptr<network_programs>
load_network_programs(int cgroup_descriptor, const std::vector<std::uint16_t>& control_ports, std::string& problem) {
  libbpf_set_print(&log_libbpf);
  auto programs = std::make_unique<loaded_network_programs>();
  problem = programs->start(cgroup_descriptor, control_ports);
  return problem.empty() ? std::move(programs) : nullptr;
}

#else

std::unique_ptr<network_programs> load_network_programs(int, const std::vector<std::uint16_t>&, std::string& problem) {
  problem = "this build is without eBPF";
  return nullptr;
}

#endif

} // namespace dynamix::telemetry
