#pragma once

/// Controllers that compute batch sizes from measured times: what PPO has to beat. Internal to policy/.
///
/// A decision made on window w holds from the third step of window w+1 at the earliest (cluster/decision_steps.hpp),
/// and later where it is late. So all of them measure under the batch size that was in force, and none adds to what is
/// assigned: their targets do not depend on decisions that have yet to show, and the delay makes nothing swing. A
/// worker without a measurement counts as an average one. Batch sizes lie in [lowest, highest_i] and add up to the
/// global batch exactly (policy/water_filling.hpp).

#include "policy/controller.hpp"

#include <memory>
#include <string>

namespace dynamix::policy {

/// LB-BSP (Chen et al. 2018, arXiv 1806.02508), its split for workers whose step time is proportional to the batch:
/// b_i in proportion to the measured speed, with the global batch fixed at its initial value (a script's own, where one
/// trains). Speed is b_i over the
/// computing time of a step, an exponential moving average with weight 1/2 for the newest window in the place of the
/// paper's forecast.
std::unique_ptr<controller> make_lb_bsp(const cluster::batch& limits);

/// OmniLearn (Tyagi and Sharma 2025, arXiv 2503.17469): the proportional controller db_i = -(b_i/t_i)(t_i - mean t)
/// with the global batch fixed at its initial value. t_i is an exponential moving average of the computing time (1/2
/// for the newest window) that starts anew with every batch size. Dead band: nothing moves until a change of more than
/// 5 % of some worker's batch size is due.
std::unique_ptr<controller> make_omnilearn(const cluster::batch& limits);

/// Pollux (Qiao et al. 2021, arXiv 2008.12260): the global batch B that maximises goodput = (B/T) * (phi + B0)/(phi +
/// B) with the noise scale phi and T = T_grad + T_sync (the paper's gamma = 1; the exchange that overlaps with backward
/// is in no measured time). As in the paper B is at most twice the largest that has run; unlike there it may be below
/// B0 (measured_cluster::least_planned). Where the paper assumes equal workers, T_grad is the slowest worker's time
/// under the best split (water-filling over measured step-time tables, policy/measured_cluster.hpp). Without phi B
/// stays. Nothing moves until goodput would rise by 2 %.
std::unique_ptr<joint_controller> make_goodput();

/// The best equal batch of a grid, which `compare` looks for: every worker gets `batch`, as far as its limits allow.
std::unique_ptr<controller> make_static_best(std::uint32_t batch);

/// One choice a report, of these batch sizes and reasons; without any where `reasons` is empty.
std::vector<choice> choose(const observation& observed, const std::vector<std::uint32_t>& batches,
                           const std::vector<std::string>& reasons);
/// One choice a report that keeps what is assigned: "<reason>: keeps 64".
std::vector<choice> keep_assigned(const observation& observed, const std::string& reason);

} // namespace dynamix::policy
