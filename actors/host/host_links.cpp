#include "actors/host/host_links.hpp"

#include "cluster/places.hpp"
#include "cluster/tree_plan.hpp"
#include "replication/frame_check.hpp"
#include "replication/replica.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace dynamix::actors {

namespace {

/// A link takes three descriptors. To each other host there is at most one for control, one of voters, and one in each
/// of the two meshes of a group with servers.
void allow_descriptors(std::size_t hosts) {
  constexpr rlim_t a_host = 12;
  constexpr rlim_t others = 512;
  rlimit limit{};
  const auto wanted = a_host * hosts + others;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
    spdlog::warn("few_descriptors limit={} wanted={}: raise it (ulimit -n)", limit.rlim_cur, wanted);
}

/// For lines about links named `kind`.
std::function<void(const std::string&)> report_of(const char* kind) {
  return [kind](const std::string& line) { spdlog::warn("{} {}", kind, line); };
}

/// Of links named `kind` in the log.
links::pump_options options_for(const host_options& options, const char* kind,
                                const std::vector<const cluster::host*>& callers) {
  links::pump_options wanted{.directory = options.keys, .host = options.host, .accepted = {}};
  for (const auto* host : callers)
    if (host->name != options.host && !cluster::is_place(*host))
      wanted.accepted.insert(host->name);
  // The names of those who may join are not known; an authority's certificate is what they need.
  wanted.accepts_all = options.file->membership == cluster::membership_kind::open && !callers.empty();
  wanted.report = report_of(kind);
  return wanted;
}

bool takes_control(const host_options& options) {
  const auto& file = *options.file;
  const auto plan = cluster::plan_tree(file);
  return options.own()->has(cluster::role::arbitrator) ||
         (!plan.central() && plan.find(options.host) < plan.nodes.size());
}

std::string start_raft(const host_options& options, host_links& links) {
  auto wanted = options_for(options, "raft link", options.file->arbitrators());
  wanted.protocol = links::raft_protocol;
  wanted.accepts_all = false; // voters are of the file
  wanted.silent_peer_ms = replication::time_outs_of(options.file->detect_ms).silent_peer_ms;
  wanted.inspect = replication::inspect_frames;
  std::string problem;
  links.raft = links::pump::start(std::move(wanted), problem);
  if (links.raft)
    links.door->lead_to(links.raft);
  return problem;
}

std::string start_gradients(const host_options& options, host_links& links) {
  std::vector<exchange::member_host> hosts;
  const auto members = options.file->members();
  for (const auto* worker : members)
    hosts.push_back({.name = worker->name, .address = worker->address, .announced = cluster::is_place(*worker)});
  auto wanted = options_for(options, "gradient link", members);
  wanted.protocol = options.file->security.data == cluster::data_protection::clear ? links::clear_gradient_protocol
                                                                                   : links::gradient_protocol;
  // Else a cut wire is found only where a step has not come for a minute, and nobody can say between whom.
  wanted.silent_peer_ms =
      exchange::silent_peer_requests * cluster::derive_timeouts(options.file->detect_ms).request_timeout_ms;
  std::string problem;
  links.gradients =
      exchange::peer_links::start(std::move(wanted), links.door, options.own()->address, std::move(hosts), problem);
  return problem;
}

std::string start_control(const host_options& options, host_links& links) {
  std::vector<const cluster::host*> callers;
  if (takes_control(options))
    for (const auto& host : options.file->hosts)
      callers.push_back(&host);
  std::string problem;
  auto wanted = options_for(options, "link", callers);
  for (const auto& [name, ranks] : options.stand_ins)
    wanted.accepted.insert(name);
  links.control = links::pump::start(std::move(wanted), problem);
  if (links.control && links.door)
    links.door->lead_to(links.control);
  return problem;
}

std::string make_door(const host_options& options, host_links& links) {
  std::string problem;
  links::door_options wanted{.directory = options.keys, .host = options.host, .report = report_of("link")};
  // All may come at once; were some of them cut to make room for others, who have then to begin anew, few would get
  // through.
  wanted.handshakes_max = std::max(wanted.handshakes_max, options.file->hosts.size());
  links.door = links::door::start(std::move(wanted), problem);
  return problem;
}

std::string listen(const host_options& options, const host_links& links) {
  const auto* own = options.own();
  const auto problem = links.door->listen(own->address, own->port);
  return problem.empty() ? "" : fmt::format("cannot listen at {}:{}: {}", own->address, own->port, problem);
}

} // namespace

std::string start_links(const host_options& options, host_links& links) {
  const auto& file = *options.file;
  if (options.keys.empty())
    return "";
  allow_descriptors(file.hosts.size());
  const auto* own = options.own();
  const bool sums = own->takes_part() && !options.without_worker &&
                    file.training.trainer == cluster::trainer_kind::built_in && file.members().size() > 1;
  std::string problem;
  if (!options.guest || sums) // nobody else calls a guest
    problem = make_door(options, links);
  if (problem.empty())
    problem = start_control(options, links);
  if (problem.empty() && own->has(cluster::role::arbitrator) && !file.arbitrator.replicas.empty())
    problem = start_raft(options, links);
  if (problem.empty() && sums)
    problem = start_gradients(options, links);
  if (problem.empty() && links.door)
    problem = listen(options, links); // now that whoever calls is led to where he wants
  return problem;
}

void end_links(const host_links& links) {
  if (links.door)
    links.door->end();
  if (links.gradients)
    links.gradients->end();
  if (links.control)
    links.control->end();
}

} // namespace dynamix::actors
