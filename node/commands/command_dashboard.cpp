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
  std::string runs; ///< the directory above many
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

/// Not the run's own address and keys: these may be gone, and this machine may be another.
void set_access(const dashboard_arguments& arguments, cluster::cluster_file& file) {
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).string();
  };
  file.dashboard.listen = arguments.listen;
  if (!arguments.token_file.empty())
    file.dashboard.token_file = absolute(arguments.token_file);
  file.dashboard.tls = arguments.certificate_file.empty() ? cluster::page_tls::off : cluster::page_tls::file;
  file.dashboard.certificate_file = absolute(arguments.certificate_file);
  file.dashboard.key_file = absolute(arguments.key_file);
}

/// Until Ctrl-C. `what`: the directory that is shown.
int keep_serving(const cluster::cluster_file& file, const std::shared_ptr<dashboard::server>& http,
                 const std::string& what, const stop_signals& signals, command_context& context) {
  if (!comes_to_listen(*http)) {
    context.err << "dynamix-node: error: cannot listen at " << file.dashboard.listen
                << ": another process does, or it is not an address of this machine; choose another --listen\n";
    return exit_failed;
  }
  context.out << dashboard::url_of(file) << "  " << what << "  (Ctrl-C ends)" << std::endl;
  while (!signals.token().stop_requested())
    std::this_thread::sleep_for(look_interval);
  return exit_done;
}

int serve(const dashboard_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  const run_directory run(arguments.run);
  cluster::cluster_file file;
  if (arguments.run.empty() && arguments.runs.empty())
    return refuse(context.err,
                  "--run RUN shows a run, and --runs DIR lists those in a directory; one of them is needed");
  if (arguments.runs.empty()) {
    if (const auto problem = read_cluster_of(run, file); !problem.empty())
      return refuse(context.err, problem);
  } else if (std::error_code problem; !std::filesystem::is_directory(arguments.runs, problem)) {
    return refuse(context.err, "--runs " + arguments.runs + " is not a directory");
  } else if (std::filesystem::exists(run_directory(arguments.runs).cluster_file(), problem)) {
    return refuse(context.err, arguments.runs + " is a run itself: name it with --run, or the directory above it");
  }
  if (!cluster::parse_listen_address(arguments.listen))
    return refuse(context.err, "--listen is " + arguments.listen +
                                   "; it must be an address and a port such as 127.0.0.1:8080 or [::1]:8080");
  set_access(arguments, file);
  if (const auto refused = dashboard::refuse_access(file))
    return refuse(context.err, refused.reason);
  spdlog::set_level(spdlog::level::err); // what goes wrong is said below
  if (!arguments.runs.empty())
    return keep_serving(file, dashboard::start_runs(file, arguments.runs), arguments.runs, signals, context);
  const auto page = dashboard::start(file, "", run.ledger());
  return keep_serving(file, page.http, run.path(), signals, context);
}

} // namespace

void add_dashboard(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<dashboard_arguments>();
  arguments->listen = cluster::dashboard{}.listen;
  auto* command = app.add_subcommand(
      "dashboard", "Serve the live page and the metrics of a running or finished run, or a list of runs");
  auto* run = command->add_option("--run", arguments->run, "Run directory");
  command
      ->add_option("--runs", arguments->runs,
                   "Directory with run directories instead: lists them, and compares chosen ones on one time axis")
      ->excludes(run);
  command->add_option("--listen", arguments->listen, "Address and port")->capture_default_str();
  command->add_option("--token-file", arguments->token_file,
                      "File with the bearer token that clients must present; needed beyond loopback");
  auto* certificate =
      command->add_option("--tls-certificate", arguments->certificate_file,
                          "Certificate of the page in PEM, followed by its chain; without it plain HTTP");
  auto* key = command->add_option("--tls-key", arguments->key_file, "The certificate's private key");
  certificate->needs(key);
  key->needs(certificate);
  add_work(*command, context, arguments, serve);
}

} // namespace dynamix::node
