#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/command_process.hpp"
#include "node/launch/local_run.hpp"
#include "telemetry/cgroup.hpp"

#include <chrono>
#include <csignal>
#include <fmt/core.h>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>

namespace dynamix::node {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t log_lines_shown = 2;

/// What agents get to end by themselves, behind the farewells of a command that has ended.
constexpr std::chrono::seconds farewell_patience{3};

struct exec_arguments {
  std::string cluster;
  std::uint32_t workers = 0; ///< 0: a cluster file says
  std::vector<std::string> set;
  std::string out;
  std::vector<std::string> command;
  bool trace = false;
  bool log_json = false;
};

/// Starts the command once all agents listen; the run is over when it has ended.
class commanded_run final : public agents_watch {
public:
  commanded_run(const cluster::cluster_file& file, const run_directory& run, std::function<void()> start,
                command_process& command)
      : agents_watch(file, run, std::move(start)), run_(run), command_(command) {}

  void ended(const host_end& end) override {
    if (!end.exit.well() && !stopped_as_asked(end.exit))
      died_[end.host] = fmt::format("({})\n{}", to_string(end.exit), last_lines(run_.log(end.host), log_lines_shown));
  }
  /// For a person: agents that died, and of whose training nobody has recorded how it ended.
  std::vector<std::string> unrecorded(const cluster::cluster_file& file) const {
    std::vector<std::string> told;
    for (const auto& [host, how] : died_)
      if (file.find(host)->has(cluster::role::worker) && !read_worker_file(run_.worker(host)))
        told.push_back("the agent of " + host + " died before it had recorded how its training ended " + how);
    return told;
  }

  bool over() const override {
    if (!command_.started() || !command_.poll())
      return false;
    if (!ended_at_)
      ended_at_ = steady_clock::now();
    return steady_clock::now() - *ended_at_ > farewell_patience;
  }
  std::string why_over() const override { return "the command has ended"; }

private:
  run_directory run_;
  std::map<std::string, std::string> died_; ///< how each agent died last
  command_process& command_;
  mutable std::optional<steady_clock::time_point> ended_at_;
};

int status_of(const child_exit& exit) {
  return exit.by_signal ? 128 + exit.number : exit.number;
}

/// The file of the run, checked against this machine; nothing after the errors have been written.
std::optional<cluster::cluster_file> load(const exec_arguments& arguments, std::ostream& err) {
  const auto changes = changes_of(arguments.set);
  auto file = arguments.workers > 0 ? load_client_cluster(arguments.workers, err, changes)
                                    : load_cluster_file(arguments.cluster, err, changes);
  if (!file)
    return std::nullopt;
  if (file->training.trainer != cluster::trainer_kind::client) {
    refuse_at(err,
              cluster::error_at(*file, "training.trainer",
                                "training.trainer is \"built-in\"; exec runs training processes of your own, which "
                                "takes \"client\""));
    return std::nullopt;
  }
  cluster::make_paths_absolute(*file);
  const auto errors = check_machine(*file);
  for (const auto& error : errors)
    refuse_at(err, error);
  return errors.empty() ? std::move(file) : std::nullopt;
}

int exec(const exec_arguments& arguments, command_context& context) {
  if (arguments.cluster.empty() && arguments.workers == 0)
    return refuse(context.err, "exec needs --workers N, for N training processes, or --cluster FILE");
  command_process command; // before any other thread
  std::signal(SIGPIPE, SIG_IGN);
  const auto file = load(arguments, context.err);
  if (!file)
    return exit_refused;
  const run_directory run(arguments.out.empty() ? default_run_path(*file) : arguments.out);
  if (!run.empty())
    return refuse(context.err, run.path() + " exists and is not empty; choose another --out");
  if (const auto problem = prepare_directory(run, *file); !problem.empty()) {
    context.err << "dynamix-node: error: " << problem << "\n";
    return exit_failed;
  }

  auto options = local_options(*file, run);
  options.quiet = true;
  options.trace = arguments.trace;
  options.log_json = arguments.log_json;
  name_agents(options);
  const auto group = telemetry::make_cgroup_for_command();
  std::string not_started;
  std::stop_source over;
  const auto start = [&] {
    not_started =
        command.start(arguments.command, {{"DYNAMIX_AGENT", agent_directory(run)}}, group ? group->path() : "");
    if (!not_started.empty())
      over.request_stop();
  };
  commanded_run watch(*file, run, start, command);
  options.observer = &watch;
  std::ostringstream unsaid; // the terminal is the command's
  live_output live(unsaid, {});
  const auto made = run_locally(options, live, over.get_token());

  if (!not_started.empty()) {
    context.err << "dynamix-node: error: " << not_started << "\n";
    return 127;
  }
  if (!made.launched.error.empty())
    context.err << "dynamix-node: warning: " << made.launched.error << "\n";
  if (!command.started()) {
    context.err << made.launched.last_words << "dynamix-node: error: the command was not started\n";
    return exit_failed;
  }
  auto problems = watch.unrecorded(*file);
  if (made.summary.steps > 0)
    context.err << "dynamix-node: report: " << run.page() << "\n";
  else if (problems.empty())
    context.err << "dynamix-node: no training process has trained a window; see " << run.path() << "/logs\n";
  if (!made.problem.empty())
    problems.push_back(made.problem + "\n");
  for (const auto& problem : problems)
    context.err << "dynamix-node: error: " << problem;
  const int status = status_of(command.wait());
  return status == 0 && !problems.empty() ? exit_failed : status;
}

} // namespace

void add_exec(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<exec_arguments>();
  auto* command = app.add_subcommand(
      "exec", "Run a training command of your own with an agent for each of its processes, all on this machine");
  auto* cluster =
      command->add_option("--cluster", arguments->cluster, "Cluster file with training.trainer = \"client\"");
  command->add_option("--workers", arguments->workers, "In place of a cluster file: so many training processes")
      ->check(CLI::Range(1, 256))
      ->excludes(cluster);
  add_set(*command, arguments->set);
  command->add_option("--out,--run", arguments->out,
                      "Run directory, new or empty (default: runs/<cluster>-<policy>-<UTC time>)");
  command->add_flag("--trace", arguments->trace, "Trace windows and decisions, for Perfetto");
  command->add_flag("--log-json", arguments->log_json, "Agents log one JSON object per line");
  command->add_option("command", arguments->command, "Behind --: the command and its arguments")->required();
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return exec(*arguments, context); }; });
}

} // namespace dynamix::node
