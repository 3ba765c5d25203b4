#include "cluster/field_rules.hpp"

#include <array>

namespace dynamix::cluster {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 2> topology_names = {"ring", "parameter-server"};

constexpr auto simulation_section = &cluster_file::simulation;

const std::vector<settings::field<cluster_file>> all_simulation_fields = {
    {"simulation",
     "profile",
     in<simulation_section, &simulation::profile>,
     "Device profile of hosts that name none; a relative path starts at this file's directory.",
     {},
     {},
     &optional_path_rule},
    {"simulation",
     "workload",
     in<simulation_section, &simulation::workload>,
     "How the model learns; a relative path starts at this file's directory.",
     {},
     {},
     &optional_path_rule},
    {"simulation", "cores", in<simulation_section, &simulation::cores>,
     "Cores that all hosts share; 0: each computes on its own.", closed(0, 65536)},
    {"simulation",
     "topology",
     in<simulation_section, &simulation::topology>,
     "How gradients travel.",
     {},
     topology_names},
    {"simulation", "bandwidth_mbit", in<simulation_section, &simulation::bandwidth_mbit>,
     "Of a host's link, in Mbit/s each way.", closed(0.001, 1e7)},
    {"simulation", "latency_us", in<simulation_section, &simulation::latency_us>, "One way, in microseconds.",
     closed(0, 1e7)},
    {"simulation", "overlap", in<simulation_section, &simulation::overlap>,
     "Overlap of computing and exchange, g in T = (T_grad^g + T_sync^g)^(1/g).", closed(1, 10)},
    {"simulation", "noise", in<simulation_section, &simulation::noise>,
     "Standard deviation of the logarithm of a step's computing time.", closed(0, 2)},
    {"simulation", "hiccup_rate", in<simulation_section, &simulation::hiccup_rate>,
     "Share of a host's windows that take 1.3 to 4 times as long.", closed(0, 1)},
    {"simulation", "slow_every_seconds", in<simulation_section, &simulation::slow_every_seconds>,
     "Mean time between a host's slow-downs; 0: none.", closed(0, no_limit_seconds)},
    {"simulation", "slow_seconds", in<simulation_section, &simulation::slow_seconds>, "Mean duration of a slow-down.",
     open_low(no_limit_seconds)},
    {"simulation", "slow_factor", in<simulation_section, &simulation::slow_factor>,
     "The worst slow-down; factors are log-uniform from 1.25 on.", closed(1.25, 100)},
    {"simulation", "congest_every_seconds", in<simulation_section, &simulation::congest_every_seconds>,
     "Mean time between congestions of a host's link; 0: none.", closed(0, no_limit_seconds)},
    {"simulation", "congest_seconds", in<simulation_section, &simulation::congest_seconds>,
     "Mean duration of a congestion.", open_low(no_limit_seconds)},
    {"simulation", "congest_factor", in<simulation_section, &simulation::congest_factor>,
     "The worst congestion: bandwidth divided by so much.", closed(1.25, 1000)},
    {"simulation", "loss_rate", in<simulation_section, &simulation::loss_rate>, "Share of segments sent again.",
     closed(0, 0.5)},
    {"simulation", "randomise", in<simulation_section, &simulation::randomise>,
     "How far train-policy's environments vary from this file.", closed(0, 1)},
};

} // namespace

std::span<const settings::field<cluster_file>> simulation_fields() {
  return all_simulation_fields;
}

std::string_view to_string(topology_kind value) {
  return topology_names.at(static_cast<std::size_t>(value));
}

} // namespace dynamix::cluster
