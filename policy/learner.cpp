#include "policy/learner.hpp"

#include "policy/ppo.hpp"
#include "policy/ppo_simple.hpp"

#include <stdexcept>

namespace dynamix::policy {

std::unique_ptr<learner> make_learner(const cluster::cluster_file& file, const std::vector<std::uint8_t>& saved) {
  if (!learns(file))
    return nullptr;
  std::unique_ptr<network_learner> made;
  if (file.arbitrator.policy == cluster::policy_kind::ppo_simple)
    made = std::make_unique<ppo_simple_learner>(shape_of(file), file.ppo, file.seed);
  else
    made = std::make_unique<ppo_learner>(shape_of(file), file.ppo, file.seed);
  if (!saved.empty())
    if (auto error = made->restore(saved); !error.empty())
      throw std::invalid_argument("the saved policy does not fit: " + error);
  return made;
}

} // namespace dynamix::policy
