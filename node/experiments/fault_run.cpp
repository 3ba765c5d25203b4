#include "node/experiments/fault_run.hpp"

#include "faults/process_facts.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds measure_interval{1000};
/// Allocators and caches fill up in a process's first minute, faults or none.
constexpr std::chrono::seconds warm_up{60};

} // namespace

std::vector<faults::proxied_link> proxy_links(const cluster::cluster_file& file, faults::proxy& through,
                                              launch_options& options, std::string& problem) {
  std::vector<faults::proxied_link> links;
  for (const auto& to : file.hosts)
    for (const auto& from : file.hosts) {
      if (!to.has(cluster::role::arbitrator) || from.name == to.name)
        continue;
      links.push_back({from.name, to.name});
      const auto port = through.add_link(links.back().name(), to.address, to.port);
      if (port == 0) {
        problem = fmt::format("no proxy can stand before host \"{}\" at {}:{}; it must have an IPv4 address", to.name,
                              to.address, to.port);
        return links;
      }
      auto& arguments = options.more_arguments[from.name];
      arguments.insert(arguments.end(), {"--reach", fmt::format("{}=127.0.0.1:{}", to.name, port)});
    }
  return links;
}

fault_run::fault_run(const faults::fault_plan& plan, const cluster::cluster_file& file, const run_directory& run,
                     faults::proxy& through, std::vector<faults::proxied_link> links, live_output& output)
    : schedule_(plan, file), injector_(file, *this, through, std::move(links), run.path()), scripts_(plan, file, run),
      recovery_(file, plan.limits.recover_seconds), output_(output), file_(file) {}

void fault_run::look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) {
  hosts_ = &hosts;
  const auto now = std::chrono::steady_clock::now();
  if (training && !began_)
    began_ = now;
  if (began_)
    moment_.seconds = std::chrono::duration<double>(now - *began_).count();
  for (const auto& row : rows) // also of the time before: who leads is told then
    add(row, moment_.seconds);
  for (const auto& end : scripts_.look(hosts, training || !began_, began_.has_value()))
    injector_.process_ended(end.host, end.exit.by_signal, end.exit.number);
  if (!began_)
    return;
  injector_.look(moment_.seconds);
  if (!training) {
    over_ = over_.value_or(now);
    return end_all(moment_.seconds);
  }
  if (!measured_ || now - *measured_ > measure_interval) {
    measured_ = now;
    measure_processes(false);
  }
  moment_.busy = recovery_.busy(moment_.seconds);
  const auto changes = schedule_.at(moment_);
  for (const auto& fault : changes.end)
    end(fault, moment_.seconds);
  for (const auto& fault : changes.begin)
    begin(fault, moment_.seconds);
}

void fault_run::add(const ledger::row& row, double now_seconds) {
  rows_.push_back(row);
  recovery_.add(row, now_seconds);
  if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    moment_.window = std::max(moment_.window, window->key.window);
    for (const auto& worker : window->workers)
      moment_.step = std::max(moment_.step, worker.report.first_step + worker.report.training.steps);
  } else if (const auto* event = std::get_if<ledger::event>(&row.entry);
             event != nullptr && event->event == ledger::event_kind::leader) {
    moment_.leader = event->host;
  }
}

void fault_run::begin(const faults::planned_fault& fault, double now_seconds) {
  measure_processes(true);
  std::string names;
  for (const auto& host : fault.hosts)
    names += " " + host;
  output_.print(fmt::format("fault {}: {}{}{}", fault.number, to_string(fault.kind), names,
                            fault.end_seconds > fault.start_seconds
                                ? " for " + fixed(fault.end_seconds - fault.start_seconds, 1) + " s"
                                : ""));
  recovery_.begin(fault, now_seconds);
  injector_.begin(fault);
  active_.push_back(fault);
}

void fault_run::end(const faults::planned_fault& fault, double now_seconds) {
  injector_.end(fault);
  recovery_.end(fault.number, now_seconds);
  std::erase_if(active_, [&](const auto& each) { return each.number == fault.number; });
}

/// Training is over: nothing may keep a host from its end.
void fault_run::end_all(double now_seconds) {
  while (!active_.empty())
    end(faults::planned_fault(active_.back()), now_seconds);
}

std::string fault_run::ended(const host_end& end) {
  if (hosts_ != nullptr && injector_.process_ended(end.host, end.exit.by_signal, end.exit.number)) {
    hosts_->start_again(end.host);
    scripts_.signal_all_of(end.host, SIGTERM); // as a machine that is shut down ends whatever still runs there
  }
  return "";
}

/// A host's end is that of all its processes, and so is its standing still; only a leave is its agent's affair at
/// first.
void fault_run::signal(const std::string& name, int number) {
  if (cluster::is_slot(name))
    return scripts_.signal(name, number);
  hosts_->signal(name, number);
  if (number != SIGTERM)
    scripts_.signal_all_of(name, number == SIGSTOP || number == SIGCONT ? number : SIGKILL);
}

void fault_run::hold_down(const std::string& name, bool held) {
  if (cluster::is_slot(name))
    scripts_.hold_down(name, held);
  else
    hosts_->hold_down(name, held);
}

bool fault_run::over() const {
  return schedule_.over(moment_.seconds) || never_begins() || never_ends();
}

std::string fault_run::why_over() const {
  return never_begins() ? "a script dies again and again before training begins"
         : never_ends() ? "a script does not end with training"
                        : launch_observer::why_over();
}

bool fault_run::never_ends() const {
  return over_ && std::chrono::steady_clock::now() - *over_ > end_patience;
}

/// A process that dies by a fault has its last measure from before it.
void fault_run::measure_processes(bool fault_begins) {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& name : hosts_->names()) {
    const pid_t id = hosts_->id(name);
    if (id == 0)
      continue;
    auto& process = processes_[name];
    const double memory = faults::memory_mib_of(id);
    const auto descriptors = faults::descriptors_of(id);
    if (process.id != id) {
      process = {.id = id, .seen = now, .growth = {.host = name}};
    } else if (!process.warm && now - process.seen > warm_up) {
      process.warm = true;
      process.growth.faults = 0;
      process.first_memory_mib = memory;
      process.first_descriptors = descriptors;
    } else if (process.warm && process.growth.faults > 0 && memory > 0 && descriptors >= 0) {
      process.growth.memory_mib = memory - process.first_memory_mib;
      process.growth.descriptors = descriptors - process.first_descriptors;
      if (process.growth.faults >= longest_[name].faults)
        longest_[name] = process.growth;
    }
    process.growth.faults += fault_begins ? 1 : 0;
  }
}

std::vector<faults::fault_record> fault_run::records() {
  auto records = recovery_.records();
  injector_.settle(records);
  return records;
}

std::vector<faults::process_growth> fault_run::growth() const {
  std::vector<faults::process_growth> found;
  for (const auto& [host, growth] : longest_)
    found.push_back(growth);
  return found;
}

} // namespace dynamix::node
