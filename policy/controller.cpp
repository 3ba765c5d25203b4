#include "policy/controller.hpp"

#include "policy/guard.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/policy_controller.hpp"
#include "policy/rivals.hpp"
#include "policy/shadow.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynamix::policy {
namespace {

/// Today's practice, to compare with: every worker keeps its batch size.
class static_controller final : public joint_controller {
public:
  std::string name() const override { return "static"; }

  std::vector<choice> choose_all(const observation& observed) override {
    check(observed);
    return keep_assigned(observed, "static policy");
  }
};

class static_best_controller final : public joint_controller {
public:
  explicit static_best_controller(std::uint32_t batch) : batch_(batch) {}
  std::string name() const override { return "static-best"; }

  std::vector<choice> choose_all(const observation& observed) override {
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

/// Nobody decides: what the workers report is what they have come to.
class stigmergic_controller final : public joint_controller {
public:
  std::string name() const override { return "stigmergic"; }

  std::vector<choice> choose_all(const observation& observed) override {
    check(observed);
    std::vector<std::uint32_t> batches;
    for (std::size_t i = 0; i < observed.highest.size(); ++i)
      batches.push_back(std::min(observed.report->reports[i].batch, observed.highest[i]));
    const std::vector<std::string> reasons(batches.size(), "the workers share by their paces");
    return choose(observed, batches, reasons);
  }
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
  case policy_kind::stigmergic:
    return std::make_unique<stigmergic_controller>();
  case policy_kind::oracle:
  case policy_kind::step_oracle:
    throw std::invalid_argument("an oracle knows the truth, which only a simulation has");
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

void controller::survey(const observation&, ruling&) const {}

std::string controller::untrained(const observation&, const std::vector<choice>&) const {
  return {};
}

void controller::rule(const observation& all, const std::vector<choice>& proposals, const std::string&,
                      ruling& result) {
  std::vector<std::uint32_t> batches;
  for (const auto& each : proposals)
    batches.push_back(each.batch);
  rule_batches(all, batches, result);
}

void controller::settle(const observation&, const ruling&, std::vector<choice>&) {}

std::vector<choice> joint_controller::propose(const observation& own, const ruling&) {
  return choose(own, own.assigned, {});
}

void joint_controller::rule(const observation& all, const std::vector<choice>&, const std::string&, ruling& result) {
  result.choices = choose_all(all);
  std::vector<std::uint32_t> batches;
  for (const auto& made : result.choices)
    batches.push_back(made.batch);
  rule_batches(all, batches, result);
}

void joint_controller::settle(const observation& own, const ruling& known, std::vector<choice>& choices) {
  if (!known.choices.empty()) {
    choices = known.choices;
    return;
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    auto& made = choices[i];
    if (const auto ruled = guidance_for(known, made.rank).ruled; ruled != 0) {
      made.batch = std::min(ruled, own.highest[i]);
      made.reason = name() + " for all workers on window " + std::to_string(known.window) + ": " +
                    std::to_string(made.batch) + " of " + std::to_string(known.ruled_total);
    } else {
      made.reason = "nothing ruled yet: keeps " + std::to_string(made.batch);
    }
  }
}

std::vector<choice> decide(controller& decider, const observation& all) {
  check(all);
  ruling known;
  known.generation = all.report->generation;
  known.window = all.report->window;
  known.sums = sum_reports(all.report->reports);
  decider.survey(all, known);
  auto choices = decider.propose(all, known);
  decider.rule(all, choices, {}, known);
  decider.settle(all, known, choices);
  return choices;
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
    if (!reasons.empty())
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
  if (!cluster::has_parameters(arbitrator.policy) && !parameters.empty())
    throw std::invalid_argument("the policy \"" + std::string(cluster::to_string(arbitrator.policy)) +
                                "\" has no parameters");
  auto decider = learned ? make_policy_controller(file, parameters) : make_heuristic(file);
  if (learned && arbitrator.guard)
    decider = make_guarded(std::move(decider), file, trained_range(parameters));
  return arbitrator.shadow ? make_shadow(std::move(decider)) : std::move(decider);
}

} // namespace dynamix::policy
