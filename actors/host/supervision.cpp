#include "actors/host/supervision.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace dynamix::actors {

supervision::supervision(supervision_options options, std::vector<std::string> children)
    : options_(options), children_(std::move(children)), generator_(options.seed) {}

restart_plan supervision::failed(std::size_t index, double now_seconds, const std::string& cause) {
  while (!failures_.empty() && failures_.front() <= now_seconds - options_.period_seconds)
    failures_.pop_front();
  failures_.push_back(now_seconds);

  restart_plan plan{.failures = failures_.size()};
  const auto& name = children_.at(index);
  if (failures_.size() > options_.max_restarts) {
    plan.escalate = true;
    plan.reason = fmt::format("{} failed ({}); {} failures within {} s are more than {} restarts allow", name, cause,
                              failures_.size(), options_.period_seconds, options_.max_restarts);
    return plan;
  }
  const auto last = options_.strategy == supervision_strategy::rest_for_one ? children_.size() : index + 1;
  for (auto child = index; child < last; ++child)
    plan.restart.push_back(child);
  const auto doubled = options_.first_delay_seconds * std::exp2(static_cast<double>(failures_.size() - 1));
  std::uniform_real_distribution<double> jitter(1 - options_.jitter, 1 + options_.jitter);
  plan.delay_seconds = std::min(doubled, options_.longest_delay_seconds) * jitter(generator_);
  plan.reason = fmt::format("{} failed ({}); restart {} of {} in {:.0f} ms", name, cause, failures_.size(),
                            options_.max_restarts, plan.delay_seconds * 1000);
  return plan;
}

} // namespace dynamix::actors
