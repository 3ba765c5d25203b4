#include "dashboard/dashboard.hpp"

#include "dashboard/access.hpp"

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

} // namespace

std::string refuse_access(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  std::string token;
  return listen ? find_token(file, *listen, token) : "";
}

running_dashboard start(const cluster::cluster_file& file, const std::string& ledger) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  if (!listen)
    return {};
  server_options options{.listen = *listen, .token = {}};
  if (!find_token(file, *listen, options.token).empty())
    return {};
  auto from = std::make_shared<feed>(file, ledger);
  return {.from = from, .http = std::make_unique<server>(from, std::move(options))};
}

std::string url_of(const cluster::listen_address& listen) {
  auto name = listen.address;
  if (name == "0.0.0.0")
    name = "127.0.0.1";
  else if (name == "::")
    name = "[::1]";
  else if (name.find(':') != std::string::npos)
    name = "[" + name + "]";
  return "http://" + name + ":" + std::to_string(listen.port) + "/";
}

std::string url_of(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  return listen ? url_of(*listen) : "";
}

} // namespace dynamix::dashboard
