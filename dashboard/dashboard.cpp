#include "dashboard/dashboard.hpp"

#include "dashboard/access.hpp"
#include "links/identity.hpp"
#include "links/key_directory.hpp"

#include <ctime>
#include <fmt/core.h>
#include <optional>

namespace dynamix::dashboard {

namespace {

/// Returns an empty string and the token, or what is wrong.
std::string find_token(const cluster::cluster_file& file, const cluster::listen_address& listen, std::string& token) {
  if (!file.dashboard.token_file.empty())
    return read_token(cluster::resolve_path(file, file.dashboard.token_file), token);
  if (cluster::is_loopback(listen.address))
    return "";
  return "the page at " + file.dashboard.listen +
         " would be open to the network: beyond loopback it needs a token "
         "file (dashboard.token_file, or --token-file)";
}

/// The files with what the page proves itself with.
std::string find_keys(const cluster::cluster_file& file, const std::string& host, server_options& options) {
  const auto& page = file.dashboard;
  const bool own = page.tls == cluster::page_tls::host;
  if (page.tls == cluster::page_tls::off || (own && host.empty()))
    return "";
  if (own && file.security.keys.empty())
    return "dashboard.tls is \"host\", and this run has no keys; name their directory as security.keys";
  const auto below = links::host_directory(cluster::resolve_path(file, file.security.keys), host) + "/";
  options.certificate_file = own ? below + links::certificate_file : cluster::resolve_path(file, page.certificate_file);
  options.key_file = own ? below + links::key_file : cluster::resolve_path(file, page.key_file);
  links::credential ignored;
  return links::read_server_keys(options.certificate_file, options.key_file, std::time(nullptr), ignored);
}

/// Where the file has a page.
std::optional<server_options> wanted_by(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  if (!listen)
    return std::nullopt;
  server_options options;
  options.listen = *listen;
  return options;
}

refusal find_options(const cluster::cluster_file& file, const std::string& host, server_options& options) {
  if (auto reason = find_token(file, options.listen, options.token); !reason.empty())
    return {"dashboard.token_file", std::move(reason)};
  return {"dashboard.tls", find_keys(file, host, options)};
}

} // namespace

refusal refuse_access(const cluster::cluster_file& file, const std::string& host) {
  auto options = wanted_by(file);
  return options ? find_options(file, host, *options) : refusal{};
}

running_dashboard start(const cluster::cluster_file& file, const std::string& host, const std::string& ledger,
                        feed::find_notices notices) {
  auto options = wanted_by(file);
  if (!options || find_options(file, host, *options))
    return {};
  auto from = std::make_shared<feed>(file, ledger, feed_limits{}, std::move(notices));
  return {.from = from, .http = std::make_shared<server>(from, std::move(*options))};
}

std::shared_ptr<server> start_runs(const cluster::cluster_file& file, const std::string& directory) {
  auto options = wanted_by(file);
  if (!options || find_options(file, "", *options))
    return nullptr;
  return std::make_shared<server>(std::make_shared<run_library>(directory), std::move(*options));
}

std::string url_of(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  if (!listen)
    return "";
  auto name = listen->address;
  if (name == "0.0.0.0")
    name = "127.0.0.1";
  else if (name == "::")
    name = "[::1]";
  else if (name.find(':') != std::string::npos)
    name = "[" + name + "]";
  return fmt::format("{}://{}:{}/", file.dashboard.tls == cluster::page_tls::off ? "http" : "https", name,
                     listen->port);
}

} // namespace dynamix::dashboard
