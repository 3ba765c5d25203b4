#include "dashboard/dashboard.hpp"
#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/stop_signals.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <thread>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds listen_patience{1000};
constexpr std::chrono::milliseconds look_interval{50};

struct dashboard_arguments {
  std::string run;
  std::string listen;
  std::string token_file;
  std::string certificate_file;
  std::string key_file;
};

bool comes_to_listen(const dashboard::server& http) {
  for (std::chrono::milliseconds waited{0}; waited < listen_patience; waited += look_interval) {
    if (http.listening())
      return true;
    std::this_thread::sleep_for(look_interval);
  }
  return false;
}

int serve(const dashboard_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  const run_directory run(arguments.run);
  auto parsed = cluster::read_cluster_file(run.cluster_file());
  if (!parsed.errors.empty())
    return refuse(context.err, run.path() + " is not a run directory: " + cluster::to_string(parsed.errors.front()));
  auto& file = parsed.file;
  file.dashboard.listen = arguments.listen;
  if (!cluster::parse_listen_address(arguments.listen))
    return refuse(context.err, "--listen is " + arguments.listen +
                                   "; it must be an address and a port such as 127.0.0.1:8080 or [::1]:8080");
  if (!arguments.token_file.empty())
    file.dashboard.token_file = std::filesystem::absolute(arguments.token_file).string();
  // Not the run's own: its keys may be gone, and this machine may be another.
  file.dashboard.tls = arguments.certificate_file.empty() ? cluster::page_tls::off : cluster::page_tls::file;
  if (!arguments.certificate_file.empty())
    file.dashboard.certificate_file = std::filesystem::absolute(arguments.certificate_file).string();
  if (!arguments.key_file.empty())
    file.dashboard.key_file = std::filesystem::absolute(arguments.key_file).string();
  if (const auto refused = dashboard::refuse_access(file))
    return refuse(context.err, refused.reason);
  spdlog::set_level(spdlog::level::err); // what goes wrong is said below
  const auto page = dashboard::start(file, "", run.ledger());
  if (!comes_to_listen(*page.http)) {
    context.err << "dynamix-node: error: cannot listen at " << arguments.listen
                << ": another process does, or it is not an address of this machine; choose another --listen\n";
    return exit_failed;
  }
  context.out << dashboard::url_of(file) << "  " << run.path() << "  (Ctrl-C ends)" << std::endl;
  while (!signals.token().stop_requested())
    std::this_thread::sleep_for(look_interval);
  return exit_done;
}

} // namespace

void add_dashboard(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<dashboard_arguments>();
  arguments->listen = cluster::dashboard{}.listen;
  auto* command = app.add_subcommand("dashboard", "Serve the live page and the metrics of a running or finished run");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_option("--listen", arguments->listen, "Address and port")->capture_default_str();
  command->add_option("--token-file", arguments->token_file,
                      "File with the bearer token that clients must present; needed beyond loopback");
  auto* certificate = command->add_option("--tls-certificate", arguments->certificate_file,
                                          "Certificate of the page in PEM, its chain behind it; without it plain HTTP");
  auto* key = command->add_option("--tls-key", arguments->key_file, "Its private key");
  certificate->needs(key);
  key->needs(certificate);
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return serve(*arguments, context); }; });
}

} // namespace dynamix::node
