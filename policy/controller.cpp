#include "policy/controller.hpp"

#include "policy/policy_controller.hpp"
#include "policy/rivals.hpp"

#include <stdexcept>

namespace dynamix::policy {
namespace {

/// Today's practice, to compare with: every worker keeps its batch size.
class static_controller final : public controller {
public:
  std::string name() const override { return "static"; }

  std::vector<choice> decide(const observation& observed) override {
    check_assigned(observed);
    return keep_assigned(observed, "static policy");
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

std::vector<choice> choose(const observation& observed, const std::vector<std::uint32_t>& batches,
                           const std::vector<std::string>& reasons) {
  std::vector<choice> choices(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    choices[i].rank = observed.report->reports[i].rank;
    choices[i].batch = batches[i];
    choices[i].reason = reasons[i];
  }
  return choices;
}

std::vector<choice> keep_assigned(const observation& observed, const std::string& reason) {
  std::vector<std::string> reasons;
  for (const auto batch : observed.assigned)
    reasons.push_back(reason + ": keeps " + std::to_string(batch));
  return choose(observed, observed.assigned, reasons);
}

std::unique_ptr<controller> make_controller(const cluster::cluster_file& file,
                                            const std::vector<std::uint8_t>& parameters) {
  using cluster::policy_kind;
  const auto policy = file.arbitrator.policy;
  if (cluster::has_parameters(policy))
    return make_policy_controller(file, parameters);
  if (!parameters.empty())
    throw std::invalid_argument("the policy \"" + std::string(cluster::to_string(policy)) + "\" has no parameters");
  switch (policy) {
  case policy_kind::lb_bsp:
    return make_lb_bsp(file.batch);
  case policy_kind::omnilearn:
    return make_omnilearn(file.batch);
  case policy_kind::goodput:
    return make_goodput(file.batch);
  default:
    return std::make_unique<static_controller>();
  }
}

} // namespace dynamix::policy
