#include "node/launch/keys.hpp"

#include "links/identity.hpp"
#include "storage/atomic_file.hpp"

#include <ctime>
#include <filesystem>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

std::string page_certificate_warning(const std::string& path) {
  std::string pem;
  if (auto problem = storage::read_file(path, 65536, pem); !problem.empty())
    return problem;
  const auto facts = links::read_certificates(pem);
  const auto left = facts.empty() ? 0 : facts.front().valid.until_seconds - std::time(nullptr);
  return left > links::renew_before_seconds
             ? ""
             : fmt::format("the page's certificate {} ends on {}; put a new one in its place, which the page takes by "
                           "itself",
                           path, facts.empty() ? "" : links::time_text(facts.front().valid.until_seconds));
}

} // namespace

std::string key_directory_of(const cluster::cluster_file& file) {
  return cluster::resolve_path(file, file.security.keys);
}

links::key_request key_request_of(const cluster::cluster_file& file) {
  links::key_request request{.cluster = file.name, .hosts = {}, .now_seconds = std::time(nullptr)};
  for (const auto& host : file.hosts)
    request.hosts.push_back(host.name);
  return request;
}

std::string run_keys(const run_directory& run) {
  return std::filesystem::absolute(run.path() + "/keys").string();
}

std::string make_run_keys(const cluster::cluster_file& file, const run_directory& run, std::string& made) {
  made = run_keys(run);
  return links::make_passing_keys(made, key_request_of(file));
}

void remove_run_keys(const run_directory& run) {
  std::error_code ignored;
  std::filesystem::remove_all(run_keys(run), ignored);
}

std::string run_key_guard::begin(const run_directory& run) {
  end();
  path_ = run.path();
  // Its input ends with this process; nobody writes to it.
  return process_.start({.program = "/bin/sh",
                         .arguments = {"-c", "trap '' HUP INT TERM; read -r nothing; rm -rf -- \"$0\"", run_keys(run)},
                         .output = "/dev/null",
                         .told = ""});
}

void run_key_guard::end() {
  if (path_.empty())
    return;
  remove_run_keys(run_directory(std::exchange(path_, "")));
  process_ = child_process();
}

std::string refuse_replicas_without_keys(const cluster::cluster_file& file) {
  return file.arbitrator.replicas.empty() || !file.security.keys.empty()
             ? ""
             : "arbitrator.replicas needs keys, by which the replicas know each other: make them (dynamix-node keys "
               "init) and write keys = \"keys\" below [security]; local and launch make their own, but not with "
               "--insecure";
}

std::string refuse_keys(const cluster::cluster_file& file, const std::string& host) {
  if (file.security.keys.empty())
    return "";
  links::identity ignored;
  return links::read_identity(links::host_directory(key_directory_of(file), host), host, std::time(nullptr), ignored);
}

std::vector<std::string> key_warnings(const cluster::cluster_file& file) {
  std::vector<std::string> warnings;
  if (file.dashboard.tls == cluster::page_tls::file)
    if (auto warning = page_certificate_warning(cluster::resolve_path(file, file.dashboard.certificate_file));
        !warning.empty())
      warnings.push_back(std::move(warning));
  std::vector<links::listed_certificate> found;
  if (file.security.keys.empty())
    return warnings;
  if (auto problem = links::list_keys(key_directory_of(file), found); !problem.empty())
    warnings.push_back(std::move(problem));
  for (const auto& each : found)
    if (auto warning = links::renewal_warning(each.facts, std::time(nullptr)); !warning.empty())
      warnings.push_back(std::move(warning));
  return warnings;
}

} // namespace dynamix::node
