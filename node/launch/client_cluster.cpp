#include "node/launch/client_cluster.hpp"

#include "links/free_port.hpp"
#include "node/launch/port_check.hpp"
#include "node/launch/shipped_files.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <utility>

namespace dynamix::node {

std::string make_client_cluster(std::uint32_t workers) {
  const auto policy = find_shipped("policies/ppo.dynamix");
  std::string text = fmt::format(R"([cluster]
name = "workers-{}"

[training]
trainer = "client"

[batch]
lowest = 8

)",
                                 workers);
  if (policy.empty())
    text += "[arbitrator]\npolicy = \"goodput\"\n";
  else // as it was trained; the training processes need the cores more than its learner
    text += fmt::format(R"([arbitrator]
policy = "ppo"
policy_file = '{}'
mode = "infer"

[ppo]
discount = 0.3
gae_lambda = 0.9
entropy_coefficient = 0.0005
)",
                        policy);
  // A file of one's own chooses its address; beside another run's page, or some other program, this one gets a free
  // port.
  if (const auto usual = cluster::parse_listen_address(cluster::dashboard{}.listen);
      usual && !can_listen(usual->address, usual->port))
    text += fmt::format("\n[dashboard]\nlisten = \"{}:{}\"\n", usual->address, links::take_free_port());
  text +=
      fmt::format("\n[[host]]\nname = \"arbitrator\"\nport = {}\nroles = [\"arbitrator\"]\n", links::take_free_port());
  for (std::uint32_t i = 0; i < workers; ++i)
    text += fmt::format("\n[[host]]\nname = \"worker-{}\"\nport = {}\n", i, links::take_free_port());
  return text;
}

std::string agent_directory(const run_directory& run) {
  return std::filesystem::absolute(run.agents()).lexically_normal().string();
}

void name_agents(launch_options& options) {
  std::size_t slot = 0;
  for (const auto* worker : options.file.workers()) {
    auto& arguments = options.more_arguments[cluster::host_of(worker->name)];
    arguments.insert(arguments.end(), {"--agent-socket", options.run.agent(slot++)});
  }
}

bool is_socket(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

bool agents_listen(const run_directory& run, std::size_t count) {
  for (std::size_t slot = 0; slot < count; ++slot)
    if (!is_socket(run.agent(slot)))
      return false;
  return true;
}

void agents_watch::look(host_processes&, const std::vector<ledger::row>&, bool) {
  if (!listening_)
    return;
  if (agents_listen(run_, agents_))
    std::exchange(listening_, nullptr)();
}

} // namespace dynamix::node
