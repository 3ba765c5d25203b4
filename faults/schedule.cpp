#include "faults/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace dynamix::faults {
namespace {

std::vector<std::string> names_of(const std::vector<const cluster::host*>& hosts) {
  std::vector<std::string> names;
  for (const auto* host : hosts)
    names.push_back(host->name);
  return names;
}

std::vector<const cluster::host*> hosts_with(const cluster::cluster_file& file, cluster::role role) {
  std::vector<const cluster::host*> found;
  for (const auto& host : file.hosts)
    if (host.has(role) && !joins(host))
      found.push_back(&host);
  return found;
}

} // namespace

double schedule::random_source::uniform() {
  return (static_cast<double>(words.next() >> 11) + 1) / 9007199254740992.0;
}

schedule::schedule(const fault_plan& plan, const cluster::cluster_file& file)
    : file_(file), one_at_a_time_(plan.one_at_a_time), settle_seconds_(plan.settle_seconds),
      after_last_seconds_(plan.after_last_fault_seconds) {
  for (const auto& rule : plan.rules) {
    const auto seed = storage::splitmix64(plan.seed).next() + rules_.size();
    rules_.push_back({.rule = rule, .random = {storage::splitmix64(seed)}});
    auto& made = rules_.back();
    if (rule.rate_per_minute > 0)
      made.next_seconds = gap_seconds(made);
    else if (rule.at_seconds >= 0)
      made.next_seconds = rule.at_seconds;
  }
}

double schedule::gap_seconds(rule_state& of) const {
  return of.rule.rate_per_minute > 0 ? -std::log(of.random.uniform()) * 60 / of.rule.rate_per_minute
                                     : of.rule.every_seconds;
}

bool schedule::is_due(rule_state& of, const moment& now) const {
  if (of.begun == of.rule.repeat)
    return false;
  if (of.next_seconds < 0 && ((of.rule.at_step != never && now.step >= of.rule.at_step) ||
                              (of.rule.at_window != never && now.window >= of.rule.at_window)))
    of.next_seconds = now.seconds;
  return of.next_seconds >= 0 && now.seconds >= of.next_seconds;
}

schedule::changes schedule::at(const moment& now) {
  changes found;
  for (auto each = active_.begin(); each != active_.end();)
    if (now.seconds >= each->end_seconds) {
      found.end.push_back(*each);
      each = active_.erase(each);
    } else {
      ++each;
    }
  if (now.busy || !active_.empty() || !found.end.empty())
    free_since_seconds_ = now.seconds;
  for (auto& each : rules_) {
    const bool wait = one_at_a_time_ && count_ > 0 && now.seconds - free_since_seconds_ < settle_seconds_;
    const bool taken = one_at_a_time_ && (now.busy || !active_.empty());
    if (!is_due(each, now) || wait || taken)
      continue;
    found.begin.push_back(begin(each, now));
    active_.push_back(found.begin.back());
    free_since_seconds_ = now.seconds;
  }
  return found;
}

planned_fault schedule::begin(rule_state& of, const moment& now) {
  ++of.begun;
  // Of faults that had to wait, the later ones are not made up for.
  of.next_seconds = now.seconds + gap_seconds(of);
  const auto kind = of.rule.kinds[of.random.below(of.rule.kinds.size())];
  const bool lasts = (row_of(kind).fields & (has_duration | may_have_duration)) != 0;
  return {.number = ++count_,
          .kind = kind,
          .hosts = resolve(of, now.leader),
          .start_seconds = now.seconds,
          .end_seconds = now.seconds + (lasts ? of.rule.duration_seconds : 0),
          .rule = of.rule};
}

std::vector<std::string> schedule::resolve(rule_state& of, const std::string& leader) const {
  std::vector<std::string> chosen;
  const auto draw = [&](const std::vector<std::string>& from) { return from[of.random.below(from.size())]; };
  const auto workers = names_of(hosts_with(file_, cluster::role::worker));
  const auto arbitrators = names_of(hosts_with(file_, cluster::role::arbitrator));
  for (const auto& target : of.rule.targets) {
    std::vector<std::string> hit;
    if (file_.find(target) != nullptr) {
      hit = {target};
    } else if (target == "worker") {
      hit = {draw(workers)};
    } else if (target == "workers") {
      hit = workers;
    } else if (target == "arbitrator") {
      hit = {draw(arbitrators)};
    } else if (target == "arbitrators") {
      hit = arbitrators;
    } else if (target == "leader") {
      hit = {leader.empty() ? arbitrators.front() : leader};
    } else if (target == "random") {
      const auto named = static_cast<std::size_t>(std::ranges::count_if(file_.hosts, std::not_fn(joins)));
      hit = {file_.hosts[of.random.below(named)].name}; // those that join stand behind the others
    } else {
      std::size_t rank = 0; // "rank:N", which check_targets has seen
      std::from_chars(target.data() + 5, target.data() + target.size(), rank);
      hit = {cluster::host_of(file_.workers().at(rank)->name)}; // a host may have several workers
    }
    for (auto& host : hit)
      if (std::ranges::find(chosen, host) == chosen.end())
        chosen.push_back(std::move(host));
  }
  return chosen;
}

bool schedule::done() const {
  return std::ranges::all_of(
      rules_, [](const auto& each) { return each.begun == each.rule.repeat || each.rule.repeat == endless; });
}

bool schedule::over(double now_seconds) const {
  return after_last_seconds_ >= 0 && done() && active_.empty() &&
         now_seconds - free_since_seconds_ >= after_last_seconds_;
}

} // namespace dynamix::faults
