#include "policy/controller.hpp"

#include "policy/policy_controller.hpp"

#include <stdexcept>

namespace dynamix::policy {
namespace {

/// Today's practice, to compare with: every worker keeps its batch size.
class static_controller final : public controller {
public:
  std::string name() const override { return "static"; }

  std::vector<choice> decide(const observation& observed) override {
    const auto& reports = observed.report->reports;
    check_assigned(observed);
    std::vector<choice> choices;
    for (std::size_t i = 0; i < reports.size(); ++i)
      choices.push_back({.rank = reports[i].rank,
                         .batch = observed.assigned[i],
                         .state = {},
                         .probabilities = {},
                         .reason = "static policy: keeps " + std::to_string(observed.assigned[i])});
    return choices;
  }
};

} // namespace

void check_assigned(const observation& observed) {
  if (observed.assigned.size() != observed.report->reports.size())
    throw std::invalid_argument("observation: one assigned batch size a report is needed");
}

std::string controller::adopt(const messages::policy_version&) {
  return "the policy \"" + name() + "\" does not learn";
}

std::unique_ptr<controller> make_controller(const cluster::cluster_file& file,
                                            const std::vector<std::uint8_t>& parameters) {
  if (file.arbitrator.policy != cluster::policy_kind::static_batch)
    return make_policy_controller(file, parameters);
  if (!parameters.empty())
    throw std::invalid_argument("the policy \"static\" has no parameters");
  return std::make_unique<static_controller>();
}

} // namespace dynamix::policy
