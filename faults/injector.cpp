#include "faults/injector.hpp"

#include "faults/process_facts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/core.h>
#include <sys/resource.h>
#include <utility>

namespace dynamix::faults {
namespace {

constexpr double slice_seconds = 0.015;     ///< that a slowed process runs for
constexpr double longest_stop_share = 0.25; ///< of detect_ms: a slow host must not look like a silent one

int signal_of(fault_kind kind) {
  switch (kind) {
  case fault_kind::crash:
    return SIGSEGV;
  default:
    return SIGKILL;
  }
}

} // namespace

injector::injector(const cluster::cluster_file& file, victims& hosts, proxy& links, std::vector<proxied_link> proxied,
                   std::string run_directory)
    : file_(file), hosts_(hosts), proxy_(links), proxied_(std::move(proxied)),
      run_directory_(std::move(run_directory)) {}

void injector::begin(const planned_fault& fault) {
  for (const auto& host : fault.hosts) {
    injuries_.push_back({.fault = fault, .host = host, .process = hosts_.id(host)});
    begin_on(injuries_.back());
  }
}

void injector::begin_on(injury& of) {
  if (row_of(of.fault.kind).on_connection)
    return namespaces_ != nullptr ? set_apart(of, true) : break_links(of);
  if (of.fault.kind == fault_kind::join && of.process == 0)
    return hosts_.start(of.host);
  if (of.process == 0) {
    of.evidence = of.host + " had no process";
    of.active = false;
    return;
  }
  switch (of.fault.kind) {
  case fault_kind::kill:
  case fault_kind::crash:
  case fault_kind::wipe:
    hosts_.hold_down(of.host, of.fault.kind == fault_kind::wipe || of.fault.rule.duration_seconds > 0);
    hosts_.signal(of.host, signal_of(of.fault.kind));
    break;
  case fault_kind::exit:
    hosts_.hold_down(of.host, of.fault.rule.duration_seconds > 0);
    hosts_.signal(of.host, SIGQUIT);
    break;
  case fault_kind::leave:
    hosts_.hold_down(of.host, of.fault.rule.duration_seconds > 0);
    hosts_.signal(of.host, SIGTERM);
    break;
  case fault_kind::hang:
    hosts_.signal(of.host, SIGSTOP);
    break;
  case fault_kind::disk_full:
    fill_disk(of, true);
    break;
  case fault_kind::clock_jump:
    shift_clock(of, true);
    break;
  default:
    break;
  }
}

void injector::end(const planned_fault& fault) {
  for (auto& each : injuries_)
    if (each.fault.number == fault.number)
      end_on(each);
}

void injector::end_on(injury& of) {
  of.over = true;
  if (row_of(of.fault.kind).on_connection)
    return namespaces_ != nullptr ? set_apart(of, false) : mend_links(of);
  if (row_of(of.fault.kind).ends_process) {
    // One that is to be wiped is let go once it has ended and been wiped.
    if (of.fault.kind != fault_kind::wipe || !of.active)
      hosts_.hold_down(of.host, false);
    return;
  }
  if (!of.active)
    return;
  of.active = false;
  if (hosts_.id(of.host) != of.process)
    return; // it has died meanwhile
  if (of.fault.kind == fault_kind::disk_full)
    fill_disk(of, false);
  if (of.fault.kind == fault_kind::clock_jump)
    shift_clock(of, false);
  if (of.fault.kind == fault_kind::hang || of.stopped)
    hosts_.signal(of.host, SIGCONT);
}

void injector::look(double now_seconds) {
  for (auto& each : injuries_) {
    if (row_of(each.fault.kind).on_connection) {
      if (!each.bit)
        look_at_links(each);
    } else if (each.fault.kind == fault_kind::join) {
      look_at_start(each);
    } else if (each.active && hosts_.id(each.host) == each.process) {
      if (each.fault.kind == fault_kind::slow)
        pace(each, now_seconds);
      watch(each);
    }
  }
}

void injector::look_at_start(injury& of) {
  const auto process = hosts_.id(of.host);
  if (of.bit || process == 0)
    return;
  of.bit = of.process == 0;
  of.evidence = of.bit ? fmt::format("process {} was started", process) : of.host + " had a process already";
}

/// Runs for a slice, stands still for (factor - 1) slices.
void injector::pace(injury& of, double now_seconds) const {
  if (now_seconds < of.switch_seconds)
    return;
  const double factor = of.fault.rule.factor;
  const double stop = std::min(slice_seconds * (factor - 1), longest_stop_share * file_.detect_ms / 1000);
  const double run = stop / (factor - 1);
  of.stopped = !of.stopped;
  of.stops += of.stopped ? 1 : 0;
  hosts_.signal(of.host, of.stopped ? SIGSTOP : SIGCONT);
  of.switch_seconds = now_seconds + (of.stopped ? stop : run);
}

void injector::watch(injury& of) const {
  const bool stops = of.fault.kind == fault_kind::hang || of.fault.kind == fault_kind::slow;
  if (!of.bit && stops && state_of(of.process) == 'T') {
    of.bit = true;
    of.evidence = fmt::format("process {} was seen stopped", of.process);
  }
}

bool injector::process_ended(const std::string& host, bool by_signal, int number) {
  bool has_left = false;
  for (auto& each : injuries_) {
    if (each.host != host || each.bit || !each.active || !row_of(each.fault.kind).ends_process)
      continue;
    each.active = false;
    const bool as_asked = each.fault.kind == fault_kind::leave  ? !by_signal && number == 0
                          : each.fault.kind == fault_kind::exit ? !by_signal && number != 0
                                                                : by_signal && number == signal_of(each.fault.kind);
    has_left = has_left || (each.fault.kind == fault_kind::leave && as_asked);
    each.bit = as_asked;
    each.evidence =
        fmt::format("process {} ended with {} {}", each.process, by_signal ? "signal" : "exit code", number);
    if (each.fault.kind != fault_kind::wipe)
      continue;
    each.evidence += "; " + wipe(host);
    if (each.over)
      hosts_.hold_down(host, false);
  }
  return has_left;
}

/// What a host has stored. In a local cluster the hosts share the run directory: of a worker's checkpoints none may be
/// left, for it would take the newest, whoever wrote it.
std::string injector::wipe(const std::string& host) const {
  const auto* found = file_.find(host);
  std::error_code error;
  std::uintmax_t removed = std::filesystem::remove(run_directory_ + "/workers/" + host + ".json", error) ? 1 : 0;
  const bool worker = found != nullptr && found->has(cluster::role::worker);
  for (std::filesystem::directory_iterator each(run_directory_ + "/checkpoints", error), end; !error && each != end;) {
    const auto path = each->path();
    each.increment(error);
    const bool of_policy = path.filename().string().starts_with("policy");
    std::error_code ignored;
    if (of_policy ? found->has(cluster::role::arbitrator) : worker)
      removed += std::filesystem::remove(path, ignored) ? 1 : 0;
  }
  std::error_code none;
  const auto replica = std::filesystem::remove_all(run_directory_ + "/replica-" + host, none);
  removed += none ? 0 : replica;
  return fmt::format("{} files wiped", removed);
}

void injector::fill_disk(injury& of, bool full) const {
  rlimit limit{};
  if (::prlimit(of.process, RLIMIT_FSIZE, nullptr, &limit) != 0) {
    of.evidence = fmt::format("the file size limit of process {} cannot be set", of.process);
    return;
  }
  if (full) {
    of.file_limit = std::exchange(limit.rlim_cur, 0);
  } else {
    const auto grown = bytes_written_below(of.process, run_directory_) - of.bytes_before;
    const auto writes = write_calls_of(of.process) - of.writes_before;
    of.bit = grown == 0 && writes > 0;
    of.evidence = fmt::format("its files grew by {} bytes in {} write calls", grown, writes);
    limit.rlim_cur = of.file_limit;
  }
  if (::prlimit(of.process, RLIMIT_FSIZE, &limit, nullptr) != 0) {
    of.evidence = fmt::format("the file size limit of process {} cannot be set", of.process);
  } else if (full) { // what was written before it held is not growth
    of.bytes_before = bytes_written_below(of.process, run_directory_);
    of.writes_before = write_calls_of(of.process);
  }
}

void injector::shift_clock(injury& of, bool shifted) {
  auto& clock = clocks_.try_emplace(of.host, wall_clock_path(run_directory_, of.host)).first->second;
  if (shifted) {
    of.reads_before = clock.shifted_reads();
    clock.shift(of.fault.rule.jump_seconds);
    return;
  }
  const auto reads = clock.shifted_reads() - of.reads_before;
  clock.shift(0);
  of.bit = reads > 0;
  of.evidence = fmt::format("{} reads of the wall clock were off by {:g} s", reads, of.fault.rule.jump_seconds);
}

/// Links with exactly one end in the fault's hosts, and the ways that it acts on.
std::vector<std::pair<std::string, std::vector<way>>> injector::links_of(const injury& of) const {
  const auto hit = [&](const std::string& host) {
    return std::ranges::find(of.fault.hosts, host) != of.fault.hosts.end();
  };
  std::vector<std::pair<std::string, std::vector<way>>> found;
  for (const auto& link : proxied_) {
    if ((link.from != of.host && link.to != of.host) || (hit(link.from) && hit(link.to)))
      continue;
    const way out = link.from == of.host ? way::to_server : way::to_client;
    const way in = link.from == of.host ? way::to_client : way::to_server;
    const auto direction = of.fault.rule.direction;
    std::vector<way> ways;
    if (direction != fault_direction::in)
      ways.push_back(out);
    if (direction != fault_direction::out)
      ways.push_back(in);
    found.emplace_back(link.name(), std::move(ways));
  }
  return found;
}

void injector::break_links(injury& of) {
  const auto& rule = of.fault.rule;
  link_condition condition{.hold = of.fault.kind == fault_kind::partition, .drop = of.fault.kind == fault_kind::drop};
  if (of.fault.kind == fault_kind::delay)
    condition.delay_seconds = rule.delay_ms / 1000;
  if (of.fault.kind == fault_kind::throttle)
    condition.bytes_per_second = rule.bytes_per_second;
  const auto links = links_of(of);
  if (links.empty())
    of.evidence = of.host + " has no control connection that the others do not share";
  else
    of.evidence = "nothing that passed was touched";
  for (const auto& [name, ways] : links) {
    of.touched_before[name] = proxy_.counters(name).touched();
    if (of.fault.kind == fault_kind::reset)
      proxy_.reset(name);
    for (const way which : ways) {
      if (of.fault.kind == fault_kind::corrupt)
        proxy_.corrupt_next(name, which);
      else if (of.fault.kind == fault_kind::truncate)
        proxy_.truncate_next(name, which);
      else if (of.fault.kind != fault_kind::reset)
        proxy_.set(name, which, condition);
    }
  }
}

/// Bytes that a host sends while it is apart reach nobody but its group.
void injector::set_apart(injury& of, bool apart) const {
  const auto problem = namespaces_->set_apart(of.host, apart);
  const auto sent = namespaces_->sent_bytes(of.host);
  if (apart) {
    of.sent_before = sent;
    of.evidence = problem;
    return;
  }
  of.bit = of.evidence.empty() && sent > of.sent_before;
  if (of.evidence.empty())
    of.evidence = fmt::format("{} sent {} bytes into a bridge of its own", of.host, sent - of.sent_before);
}

void injector::mend_links(const injury& of) {
  for (const auto& [name, ways] : links_of(of))
    for (const way which : ways)
      if ((row_of(of.fault.kind).fields & has_duration) != 0)
        proxy_.set(name, which, {});
}

void injector::look_at_links(injury& of) const {
  for (const auto& [name, before] : of.touched_before)
    if (const auto now = proxy_.counters(name).touched(); now > before) {
      of.bit = true;
      of.evidence = fmt::format("the proxy of {} counted {} effects", name, now - before);
    }
}

void injector::settle(std::vector<fault_record>& records) {
  for (auto& record : records) {
    record.bit = true;
    for (const auto& each : injuries_) {
      if (each.fault.number != record.plan.number)
        continue;
      record.bit = record.bit && each.bit;
      record.evidence += (record.evidence.empty() ? "" : "; ") + each.evidence +
                         (each.stops > 0 ? fmt::format(", {} times", each.stops) : "");
    }
  }
}

} // namespace dynamix::faults
