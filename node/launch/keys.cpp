#include "node/launch/keys.hpp"

#include "links/identity.hpp"

#include <ctime>
#include <filesystem>

namespace dynamix::node {
namespace {

std::string run_keys(const run_directory& run) {
  return std::filesystem::absolute(run.path() + "/keys").string();
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

std::string make_run_keys(const cluster::cluster_file& file, const run_directory& run, std::string& made) {
  made = run_keys(run);
  return links::make_passing_keys(made, key_request_of(file));
}

void remove_run_keys(const run_directory& run) {
  std::error_code ignored;
  std::filesystem::remove_all(run_keys(run), ignored);
}

std::string refuse_keys(const cluster::cluster_file& file, const std::string& host) {
  if (file.security.keys.empty())
    return "";
  links::identity ignored;
  return links::read_identity(links::host_directory(key_directory_of(file), host), host, std::time(nullptr), ignored);
}

std::vector<std::string> key_warnings(const cluster::cluster_file& file) {
  std::vector<std::string> warnings;
  std::vector<links::listed_certificate> found;
  if (file.security.keys.empty())
    return warnings;
  if (auto problem = links::list_keys(key_directory_of(file), found); !problem.empty())
    return {std::move(problem)};
  for (const auto& each : found)
    if (auto warning = links::renewal_warning(each.facts, std::time(nullptr)); !warning.empty())
      warnings.push_back(std::move(warning));
  return warnings;
}

} // namespace dynamix::node
