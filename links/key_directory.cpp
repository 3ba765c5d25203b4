#include "links/key_directory.hpp"

#include "links/identity.hpp"
#include "links/private_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <system_error>

namespace dynamix::links {
namespace {

namespace fs = std::filesystem;

constexpr const char* authority_certificate = "/authority/ca.crt";
constexpr const char* authority_key = "/authority/ca.key";
constexpr const char* next_certificate = "/authority/next.crt";
constexpr const char* next_key = "/authority/next.key";
constexpr const char* previous_certificate = "/authority/previous.crt";

constexpr const char* read_me = R"(Keys of the cluster "{0}", made by `dynamix-node keys`.

hosts/NAME    Copy this directory to host NAME, to the same place beside its cluster file, and no other host's:
                  rsync -a --chmod=D700,F600 {1}/hosts/NAME/ NAME:{1}/hosts/NAME/
              It must belong to the user who runs dynamix-node there. Running processes read new files by themselves.
authority     Signs the hosts' certificates. Whoever has ca.key can pretend to be any host: keep it on a machine that is
              not one of them, or on a medium in a drawer. Hosts do not need it.

The cluster file names this directory, the same on every host:
    [security]
    keys = "{2}"

dynamix-node keys show     names, ends of validity, fingerprints; warns 30 days before an end
dynamix-node keys issue    a new certificate for one host: its end is near, or it is a new host
dynamix-node keys rotate   a new authority, in three steps, without stopping the cluster: a key may have been stolen
)";

std::string missing(const std::string& directory, const std::string& problem) {
  return fmt::format("{}: {}; dynamix-node keys init makes the directory", directory, problem);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string write_credential(const std::string& certificate_path, const std::string& key_path,
                             const credential& written) {
  if (auto problem = write_private_file(key_path, written.key); !problem.empty())
    return problem;
  return write_private_file(certificate_path, written.certificate);
}

std::string read_credential(const std::string& certificate_path, const std::string& key_path, credential& read) {
  if (auto problem = read_private_file(certificate_path, read.certificate); !problem.empty())
    return problem;
  return read_private_file(key_path, read.key);
}

/// The certificates of all authorities that hosts are to accept now.
std::string read_authorities(const std::string& directory, std::string& pem) {
  for (const auto* file : {authority_certificate, next_certificate, previous_certificate}) {
    std::string text;
    if (file != authority_certificate && !exists(directory + file))
      continue;
    if (auto problem = read_private_file(directory + file, text); !problem.empty())
      return missing(directory, problem);
    pem += text;
  }
  return "";
}

validity host_validity(const key_request& request) {
  return valid_for_days(request.now_seconds, request.host_days);
}

std::string write_host(const std::string& directory, const std::string& host, const credential& authority,
                       const std::string& authorities, const validity& valid) {
  const auto below = host_directory(directory, host);
  credential issued;
  if (auto problem = issue_certificate(authority, host, valid, issued); !problem.empty())
    return directory + "/authority: " + problem;
  if (auto problem = make_private_directory(below); !problem.empty())
    return problem;
  if (auto problem = write_credential(below + "/" + certificate_file, below + "/" + key_file, issued); !problem.empty())
    return problem;
  return write_private_file(below + "/" + authorities_file, authorities);
}

/// The names of the hosts that have a directory, in order.
std::vector<std::string> listed_hosts(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory + "/hosts", error))
    if (entry.is_directory(error))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// The authorities that every host's directory holds.
std::string write_authorities(const std::string& directory) {
  std::string pem;
  if (auto problem = read_authorities(directory, pem); !problem.empty())
    return problem;
  for (const auto& host : listed_hosts(directory))
    if (auto problem = write_private_file(host_directory(directory, host) + "/" + authorities_file, pem);
        !problem.empty())
      return problem;
  return "";
}

std::string introduce(const std::string& directory, const key_request& request) {
  const auto next = make_authority(request.cluster, valid_for_days(request.now_seconds, request.authority_days));
  if (auto problem = write_credential(directory + next_certificate, directory + next_key, next); !problem.empty())
    return problem;
  return write_authorities(directory);
}

/// May be interrupted anywhere: as long as `next.crt` is there, all of it is made again. A `next.key` that is left
/// alone is what the authority has by then, until the next rotation replaces it.
std::string switch_over(const std::string& directory, const key_request& request) {
  credential next;
  std::string authorities;
  std::string before;
  if (auto problem = read_credential(directory + next_certificate, directory + next_key, next); !problem.empty())
    return problem;
  if (auto problem = read_authorities(directory, authorities); !problem.empty())
    return problem;
  if (auto problem = read_private_file(directory + authority_certificate, before); !problem.empty())
    return problem;
  for (const auto& host : listed_hosts(directory))
    if (auto problem = write_host(directory, host, next, authorities, host_validity(request)); !problem.empty())
      return problem;
  if (!exists(directory + previous_certificate))
    if (auto problem = write_private_file(directory + previous_certificate, before); !problem.empty())
      return problem;
  if (auto problem = write_credential(directory + authority_certificate, directory + authority_key, next);
      !problem.empty())
    return problem;
  std::error_code error;
  for (const auto* file : {next_certificate, next_key})
    if (fs::remove(directory + file, error); error)
      return fmt::format("cannot remove {}{}: {}", directory, file, error.message());
  return "";
}

} // namespace

std::string host_directory(const std::string& directory, const std::string& host) {
  return directory + "/hosts/" + host;
}

std::string make_keys(const std::string& directory, const key_request& request) {
  std::error_code error;
  if (exists(directory) && !fs::is_empty(directory, error))
    return directory + " exists and is not empty; keys rotate replaces keys, keys issue adds a host";
  for (const auto& made : {directory, directory + "/authority", directory + "/hosts"})
    if (auto problem = make_private_directory(made); !problem.empty())
      return problem;
  const auto authority = make_authority(request.cluster, valid_for_days(request.now_seconds, request.authority_days));
  if (auto problem = write_credential(directory + authority_certificate, directory + authority_key, authority);
      !problem.empty())
    return problem;
  for (const auto& host : request.hosts)
    if (auto problem = write_host(directory, host, authority, authority.certificate, host_validity(request));
        !problem.empty())
      return problem;
  const auto name = fs::path(directory).lexically_normal();
  return write_private_file(directory + "/README.txt",
                            fmt::format(read_me, request.cluster, fs::absolute(name).string(),
                                        (name.has_filename() ? name : name.parent_path()).filename().string()));
}

std::string make_passing_keys(const std::string& directory, const key_request& request) {
  // Whatever becomes of the machine's clock: nobody has these keys when the run is over.
  const validity always{.from_seconds = request.now_seconds - request.authority_days * day_seconds,
                        .until_seconds = request.now_seconds + request.authority_days * day_seconds};
  const auto authority = make_authority(request.cluster, always);
  if (auto problem = make_private_directory(directory); !problem.empty())
    return problem;
  for (const auto& host : request.hosts)
    if (auto problem = write_host(directory, host, authority, authority.certificate, always); !problem.empty())
      return problem;
  return "";
}

std::string issue_keys(const std::string& directory, const std::string& host, const key_request& request) {
  credential authority;
  std::string authorities;
  if (auto problem = read_credential(directory + authority_certificate, directory + authority_key, authority);
      !problem.empty())
    return missing(directory, problem);
  if (auto problem = read_authorities(directory, authorities); !problem.empty())
    return problem;
  return write_host(directory, host, authority, authorities, host_validity(request));
}

std::string rotate_keys(const std::string& directory, const key_request& request, rotation_step& made) {
  if (!exists(directory + authority_key))
    return missing(directory, "there is no authority/ca.key");
  if (exists(directory + next_certificate)) {
    made = rotation_step::switched;
    return switch_over(directory, request);
  }
  if (!exists(directory + previous_certificate)) {
    made = rotation_step::introduced;
    return introduce(directory, request);
  }
  made = rotation_step::finished;
  std::error_code error;
  fs::remove(directory + previous_certificate, error);
  return error ? fmt::format("cannot remove {}{}: {}", directory, previous_certificate, error.message())
               : write_authorities(directory);
}

std::string list_keys(const std::string& directory, std::vector<listed_certificate>& found) {
  std::vector<std::string> paths;
  for (const auto* file : {authority_certificate, next_certificate, previous_certificate})
    if (exists(directory + file))
      paths.emplace_back(file + 1);
  for (const auto& host : listed_hosts(directory))
    paths.push_back(fmt::format("hosts/{}/{}", host, certificate_file));
  if (paths.empty())
    return missing(directory, "there are no keys");
  for (const auto& path : paths) {
    std::string pem;
    if (auto problem = read_private_file(directory + "/" + path, pem); !problem.empty())
      return problem;
    const auto facts = read_certificates(pem);
    if (facts.size() != 1)
      return fmt::format("{}/{} holds {} certificates; it must hold one", directory, path, facts.size());
    found.push_back({path, facts.front()});
  }
  return "";
}

} // namespace dynamix::links
