#include "policy/controller.hpp"

#include "policy/guard.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/policy_controller.hpp"
#include "policy/rivals.hpp"
#include "policy/shadow.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynamix::policy {
namespace {

/// Today's practice, to compare with: every worker keeps its batch size.
class static_controller final : public controller {
public:
  std::string name() const override { return "static"; }

  std::vector<choice> decide(const observation& observed) override {
    check(observed);
    return keep_assigned(observed, "static policy");
  }
};

class static_best_controller final : public controller {
public:
  explicit static_best_controller(std::uint32_t batch) : batch_(batch) {}
  std::string name() const override { return "static-best"; }

  std::vector<choice> decide(const observation& observed) override {
    check(observed);
    std::vector<std::uint32_t> batches;
    for (const auto highest : observed.highest)
      batches.push_back(std::min(batch_, highest));
    const std::vector<std::string> reasons(batches.size(), "the same for every worker");
    return choose(observed, batches, reasons);
  }

private:
  std::uint32_t batch_;
};

/// What the file names, unguarded.
std::unique_ptr<controller> make_heuristic(const cluster::cluster_file& file) {
  using cluster::policy_kind;
  switch (file.arbitrator.policy) {
  case policy_kind::static_best:
    return make_static_best(file.arbitrator.static_batch == 0 ? file.batch.initial : file.arbitrator.static_batch);
  case policy_kind::lb_bsp:
    return make_lb_bsp(file.batch);
  case policy_kind::omnilearn:
    return make_omnilearn(file.batch);
  case policy_kind::goodput:
    return make_goodput();
  case policy_kind::oracle:
    throw std::invalid_argument("the policy \"oracle\" knows the truth, which only a simulation has");
  default:
    return std::make_unique<static_controller>();
  }
}

} // namespace

void check(const observation& observed) {
  const auto reports = observed.report->reports.size();
  if (observed.assigned.size() != reports || observed.highest.size() != reports)
    throw std::invalid_argument("observation: one assigned and one highest batch size a report are needed");
  if (observed.measured == nullptr || observed.measured->size() != reports)
    throw std::invalid_argument("observation: what was measured up to this report is needed");
}

std::string controller::adopt(const messages::policy_version&) {
  return "the policy \"" + name() + "\" does not learn";
}

void controller::survey(const observation&, messages::guidance&) const {}

std::vector<choice> controller::propose(const observation& own, const messages::guidance&) {
  return keep_assigned(own, "nothing ruled yet");
}

std::string controller::untrained(const observation&, const std::vector<choice>&) const {
  return {};
}

void controller::rule(const observation& all, const std::vector<proposal>&, const std::string&,
                      messages::guidance& result) {
  std::vector<std::uint32_t> batches;
  for (const auto& made : decide(all))
    batches.push_back(made.batch);
  rule_batches(all, batches, result);
}

void controller::settle(const observation& own, const messages::guidance& known, std::vector<choice>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto ruled = guidance_for(known, choices[i].rank).ruled;
    if (ruled == 0)
      continue;
    choices[i].batch = std::min(ruled, own.highest[i]);
    choices[i].reason = name() + " for all workers on window " + std::to_string(known.window) + ": " +
                        std::to_string(choices[i].batch) + " of " + std::to_string(known.ruled_total);
  }
}

messages::worker_guidance guidance_for(const messages::guidance& known, std::uint32_t rank) {
  const auto found = std::ranges::lower_bound(known.workers, rank, {}, &messages::worker_guidance::rank);
  return found != known.workers.end() && found->rank == rank ? *found : messages::worker_guidance{.rank = rank};
}

void rule_batches(const observation& all, const std::vector<std::uint32_t>& batches, messages::guidance& result) {
  const auto& reports = all.report->reports;
  result.workers.resize(reports.size());
  result.ruled_total = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    result.workers[i].rank = reports[i].rank;
    result.workers[i].ruled = batches[i];
    result.ruled_total += batches[i];
  }
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

std::unique_ptr<controller> make_static_best(std::uint32_t batch) {
  return std::make_unique<static_best_controller>(batch);
}

std::unique_ptr<controller> make_controller(const cluster::cluster_file& file,
                                            const std::vector<std::uint8_t>& parameters) {
  const auto& arbitrator = file.arbitrator;
  const bool learned = cluster::has_parameters(arbitrator.policy);
  if (!learned && !parameters.empty())
    throw std::invalid_argument("the policy \"" + std::string(cluster::to_string(arbitrator.policy)) +
                                "\" has no parameters");
  auto decider = learned ? make_policy_controller(file, parameters) : make_heuristic(file);
  if (learned && arbitrator.guard)
    decider = make_guarded(std::move(decider), file, trained_range(parameters));
  return arbitrator.shadow ? make_shadow(std::move(decider)) : std::move(decider);
}

} // namespace dynamix::policy
