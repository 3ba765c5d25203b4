#include "telemetry/kernel_programs.hpp"

#if DYNAMIX_HAS_BPF
#include "telemetry/libbpf.hpp"

#include <array>
#include <bpf_programs/network.skel.h>
#include <utility>
#endif

namespace dynamix::telemetry {

std::string missing_to_build() {
  return DYNAMIX_BPF_MISSING;
}

#if DYNAMIX_HAS_BPF
namespace {

constexpr std::size_t events_max = 256; ///< told at once

using followed_table = std::array<std::uint64_t, 1U << followed_bits>;

/// Where the programs look the cookies up. One that finds no free slot is left out.
followed_table table_of(std::span<const std::uint64_t> cookies) {
  followed_table table{};
  for (const auto cookie : cookies)
    for (std::uint32_t attempt = 0; attempt < followed_tries; ++attempt)
      if (auto& slot = table[followed_slot(cookie, attempt)]; slot == 0) {
        slot = cookie;
        break;
      }
  return table;
}

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
  std::string start(int cgroup, const std::vector<std::uint16_t>& control_ports, bool by_cookie) {
    if (skeleton_ == nullptr)
      return libbpf_problem("loading the network programs");
    auto& programs = skeleton_->progs;
    auto& links = skeleton_->links;
    std::vector<std::pair<bpf_program*, bpf_link**>> attached{{programs.watch_connection, &links.watch_connection}};
    for (const auto& packets :
         {std::pair{programs.count_sent, &links.count_sent}, std::pair{programs.count_received, &links.count_received}})
      if (by_cookie)
        bpf_program__set_autoload(packets.first, false);
      else
        attached.push_back(packets);
    if (network_skeleton__load(skeleton_) != 0)
      return libbpf_problem("loading the network programs");
    for (const auto port : control_ports)
      skeleton_->bss->control_ports[port / 8] |= static_cast<std::uint8_t>(1U << port % 8);
    skeleton_->bss->by_cookie = by_cookie ? 1 : 0;
    for (const auto& [program, link] : attached) {
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

  void follow(std::span<const std::uint64_t> cookies) override {
    const auto table = table_of(cookies);
    for (std::size_t i = 0; i < table.size(); ++i)
      if (auto& slot = skeleton_->bss->followed[i]; slot != table[i])
        __atomic_store_n(&slot, table[i], __ATOMIC_RELAXED);
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

std::unique_ptr<network_programs> load(int cgroup, const std::vector<std::uint16_t>& control_ports, bool by_cookie,
                                       std::string& problem) {
  libbpf_set_print(&log_libbpf);
  auto programs = std::make_unique<loaded_network_programs>();
  problem = programs->start(cgroup, control_ports, by_cookie);
  return problem.empty() ? std::move(programs) : nullptr;
}

} // namespace

std::unique_ptr<network_programs>
load_network_programs(int cgroup_descriptor, const std::vector<std::uint16_t>& control_ports, std::string& problem) {
  return load(cgroup_descriptor, control_ports, false, problem);
}

std::unique_ptr<network_programs> load_connection_programs(int cgroup_descriptor, std::string& problem) {
  return load(cgroup_descriptor, {}, true, problem);
}

#else

std::unique_ptr<network_programs> load_network_programs(int, const std::vector<std::uint16_t>&, std::string& problem) {
  problem = "this build is without eBPF";
  return nullptr;
}

std::unique_ptr<network_programs> load_connection_programs(int, std::string& problem) {
  return load_network_programs(-1, {}, problem);
}

#endif

} // namespace dynamix::telemetry
