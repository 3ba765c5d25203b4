#include "client/cores.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/command_process.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/observed_run.hpp"
#include "telemetry/cgroup.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/ranges.h>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <ranges>
#include <set>
#include <stop_token>
#include <thread>
#include <unistd.h>
#include <utility>
#include <variant>

namespace dynamix::node {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t log_lines_shown = 2;

/// What agents get to end by themselves, behind the farewells of a command that has ended.
constexpr std::chrono::seconds farewell_patience{3};
/// What the command prints is what people look at.
constexpr std::chrono::seconds progress_interval{10};

/// What an agent gets to come that is started at the same time.
constexpr std::chrono::seconds agent_patience{60};
constexpr std::chrono::milliseconds agent_look_interval{50};

struct exec_arguments {
  std::string cluster;
  std::uint32_t workers = 0; ///< 0: a cluster file says
  std::vector<std::string> set;
  std::string out;
  std::string name;                  ///< of the host whose agent runs already
  std::optional<std::uint32_t> slot; ///< of its workers
  std::vector<std::string> command;
  bool observe = false;
  bool shadow = false;
  bool trace = false;
  bool log_json = false;
};

/// Starts the command once all agents listen; the run is over when it has ended.
class commanded_run final : public agents_watch {
public:
  /// `stop` and `hurry` are requested by signals that come while there is no command.
  commanded_run(const cluster::cluster_file& file, const run_directory& run, std::function<void()> start,
                command_process& command, std::stop_source stop, std::stop_source hurry)
      : agents_watch(file, run, std::move(start)), run_(run), command_(command), stop_(std::move(stop)),
        hurry_(std::move(hurry)) {}

  void look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) override {
    if (command_process::asked_to_stop() > 0)
      stop_.request_stop();
    if (command_process::asked_to_stop() > 1)
      hurry_.request_stop();
    if (!stop_.stop_requested())
      agents_watch::look(hosts, rows, training);
    for (const auto& row : rows)
      if (const auto* event = std::get_if<ledger::event>(&row.entry);
          event != nullptr && event->event == ledger::event_kind::joined)
        joined_.insert(event->host);
  }
  std::string ended(const host_end& end) override {
    if (!ended_in_order(end.exit) && !stopped_as_asked(end.exit))
      died_[end.host] = fmt::format("({})\n{}", to_string(end.exit), last_lines(run_.log(end.host), log_lines_shown));
    return "";
  }
  /// The agents that no process has joined.
  std::vector<std::string> unjoined(const cluster::cluster_file& file) const {
    std::vector<std::string> names;
    for (const auto* worker : file.workers())
      if (!joined_.contains(worker->name))
        names.push_back(worker->name);
    return names;
  }
  /// For a person: agents that died, and of whose training nobody has recorded how it ended.
  std::vector<std::string> unrecorded(const cluster::cluster_file& file) const {
    std::vector<std::string> told;
    for (const auto& [host, how] : died_)
      if (std::ranges::any_of(file.find(host)->members(),
                              [this](const auto* worker) { return !read_worker_file(run_.worker(worker->name)); }))
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
  std::set<std::string> joined_;            ///< workers that a process has trained for, or was about to
  command_process& command_;
  std::stop_source stop_;
  std::stop_source hurry_;
  mutable std::optional<steady_clock::time_point> ended_at_;
};

int status_of(const child_exit& exit) {
  return exit.by_signal ? 128 + exit.number : exit.number;
}

/// The file of the run; nothing after the errors have been written.
std::optional<cluster::cluster_file> load(const exec_arguments& arguments, std::ostream& err) {
  auto changes = changes_of(arguments.set);
  if (arguments.observe || arguments.shadow)
    changes.push_back({arguments.observe ? "--observe" : "--shadow", "arbitrator.shadow", "true"});
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
  return file;
}

using environment = std::vector<std::pair<std::string, std::string>>;

/// torchrun shares its rendezvous' store with the process group, which a restart then forms at the addresses of its
/// dead processes; the user's own value stands.
constexpr auto own_store_variable = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";

/// What training processes need of their agents' side, and what shows them the GPUs that the file gives them.
environment environment_of(const std::string& agent, const std::vector<const cluster::host*>& workers) {
  environment variables = {{"DYNAMIX_AGENT", agent}};
  if (std::getenv(own_store_variable) == nullptr)
    variables.emplace_back(own_store_variable, "1");
  if (auto gpus = cluster::visible_gpus(workers); !gpus.empty())
    variables.emplace_back("CUDA_VISIBLE_DEVICES", std::move(gpus));
  return variables;
}

/// False where it has not come true within `agent_patience`, of which a person is told.
bool wait_until(const std::function<bool()>& come_true, const std::string& what, std::ostream& err) {
  const auto until = steady_clock::now() + agent_patience;
  if (!come_true())
    err << "dynamix-node: waiting for " << what << "\n" << std::flush;
  while (!come_true() && steady_clock::now() < until)
    std::this_thread::sleep_for(agent_look_interval);
  return come_true();
}

/// This process becomes the command, as one of several workers bound to its cores from the first thread on.
int exec_beside_agent(const exec_arguments& arguments, command_context& context) {
  if (arguments.out.empty() || !arguments.cluster.empty() || arguments.workers > 0 || !arguments.set.empty())
    return refuse(context.err,
                  "--name HOST is for a host whose `dynamix-node run` runs already; it needs --run RUN, the "
                  "run directory of that, which has the cluster file");
  const run_directory run(arguments.out);
  // Both may be started at the same time.
  wait_until([&] { return std::filesystem::exists(run.cluster_file()); },
             fmt::format("`dynamix-node run --name {} --out {}`", arguments.name, run.path()), context.err);
  const auto file = load_cluster_file(run.cluster_file(), context.err);
  if (!file)
    return exit_refused;
  const auto* host = cluster::is_slot(arguments.name) ? nullptr : file->find(arguments.name);
  if (host == nullptr || !host->has(cluster::role::worker) || file->training.trainer != cluster::trainer_kind::client)
    return refuse(context.err, fmt::format("--name is {}, which is not a host of {} that training processes join",
                                           arguments.name, run.cluster_file()));
  auto workers = host->members();
  if (arguments.slot && *arguments.slot >= workers.size())
    return refuse(context.err,
                  fmt::format("--slot is {}; host {} has {}, counted from 0", *arguments.slot, host->name,
                              workers.size() == 1 ? "one worker" : fmt::format("{} workers", workers.size())));
  if (!wait_until([&] { return agents_listen(run, workers.size()); },
                  fmt::format("the agent of {} at {}", host->name, run.agents()), context.err)) {
    context.err << fmt::format("dynamix-node: error: no agent listens at {}; is `dynamix-node run --name {} --out {}` "
                               "running, without --agent-socket?\n",
                               run.agents(), host->name, run.path());
    return exit_failed;
  }
  auto variables = environment_of(agent_directory(run), workers);
  if (arguments.slot) {
    variables = environment_of(std::filesystem::absolute(run.agent(*arguments.slot)).lexically_normal().string(),
                               {workers[*arguments.slot]});
    variables.emplace_back("LOCAL_RANK", "0"); // it sees no GPU but its own
    if (workers.size() > 1 && host->bind_cores)
      client::keep_to_cpus(client::split_cores(client::read_machine_cores(), workers.size())[*arguments.slot]);
  }
  const auto problem = become_command(arguments.command, variables);
  context.err << "dynamix-node: error: " << problem << "\n";
  return 127;
}

/// Who has joined, where that was not enough.
std::string tell_unjoined(const std::vector<std::string>& unjoined, const cluster::cluster_file& file) {
  constexpr std::size_t named_max = 8;
  if (unjoined.empty())
    return fmt::format("its processes joined, and made fewer steps than a window has ({})",
                       file.arbitrator.window_steps);
  if (unjoined.size() == file.workers().size())
    return "none of its processes has joined, by dynamix.join and run.loader. `dynamix exec --observe` watches a "
           "script that does not";
  const auto more = unjoined.size() > named_max ? fmt::format(" and {} more", unjoined.size() - named_max) : "";
  return fmt::format(
      "no process has joined {}{}, by dynamix.join and run.loader: start as many as there are agents ({})",
      fmt::join(unjoined | std::views::take(named_max), ", "), more, file.workers().size());
}

/// The logs are the agents', who know nothing of what went wrong in the command.
std::string why_untrained(int status, const std::vector<std::string>& unjoined, const cluster::cluster_file& file,
                          const run_directory& run) {
  if (status != 0)
    return fmt::format(
        "no training process has trained a window, and the command ended with {}: its own message stands above{}\n",
        status,
        unjoined.size() < file.workers().size() // a Python that has joined has the module
            ? ""
            : ". If it is \"No module named 'dynamix'\", the Python that runs the script is not the one that dynamix "
              "is installed in: start it by that one, PYTHON -m torch.distributed.run in place of torchrun");
  return fmt::format("no training process has trained a window: the command ended well, and {}. The agents' logs: "
                     "{}/logs\n",
                     tell_unjoined(unjoined, file), run.path());
}

/// Of a run that is over: what there is to be told of it beside its report, which then holds it, too.
void tell(const exec_arguments& arguments, const cluster::cluster_file& file, const run_directory& run, local_run& made,
          std::ostream& err) {
  const told_run told{.run = run, .file = file, .command = arguments.command, .summary = made.summary};
  std::string table;
  auto sentences = arguments.observe ? tell_observation(told, table) : std::vector<std::string>{};
  if (table.empty()) {
    const bool shadow = arguments.observe || arguments.shadow;
    std::ranges::move(shadow ? tell_shadow(told) : tell_comparison(told), std::back_inserter(sentences));
  }
  err << table;
  for (const auto& sentence : sentences)
    err << (sentence.starts_with("  ") ? "" : "dynamix-node: ") << sentence << "\n";
  if (sentences.empty() || made.summary.steps == 0)
    return;
  auto launched = made.launched;
  std::ranges::move(sentences, std::back_inserter(launched.warnings));
  made = sum_up(run, std::move(launched));
}

/// Returns the exit status: the command's, or 1 where it ended well and something else did not.
int report_command_end(const local_run& made, const cluster::cluster_file& file, const run_directory& run,
                       const commanded_run& watch, int status, std::ostream& err) {
  auto problems = watch.unrecorded(file);
  if (made.summary.steps > 0)
    err << "dynamix-node: report: " << run.page() << "\n";
  else if (problems.empty())
    err << "dynamix-node: " << why_untrained(status, watch.unjoined(file), file, run);
  if (!made.problem.empty())
    problems.push_back(made.problem + "\n");
  for (const auto& problem : problems)
    err << "dynamix-node: error: " << problem;
  return status == 0 && !problems.empty() ? exit_failed : status;
}

int exec(const exec_arguments& arguments, command_context& context) {
  if (arguments.observe && (!arguments.name.empty() || !can_observe()))
    return refuse(context.err,
                  arguments.name.empty()
                      ? "--observe needs the Python package, which measures: `dynamix exec --observe ...` in "
                        "place of `dynamix-node exec --observe ...`"
                      : "--observe is for a command on one machine, whose agents exec starts; leave out --name");
  if (!arguments.name.empty())
    return exec_beside_agent(arguments, context);
  if (arguments.slot)
    return refuse(context.err, "--slot needs --name HOST and --run RUN");
  if (arguments.cluster.empty() && arguments.workers == 0)
    return refuse(context.err, "exec needs --workers N, for N training processes, or --cluster FILE");
  if (const auto problem = why_not_startable(arguments.command.front()); !problem.empty()) {
    context.err << "dynamix-node: error: " << problem << "\n";
    return 127;
  }
  command_process command; // before any other thread
  std::signal(SIGPIPE, SIG_IGN);
  const auto file = load(arguments, context.err);
  if (!file)
    return exit_refused;
  if (const int code = check_machine(*file, context.err); code != exit_done)
    return code;
  const auto run = arguments.out.empty() ? make_default_run(*file) : run_directory(arguments.out);
  if (!run.empty())
    return refuse(context.err, run.path() + " exists and is not empty; choose another --out");
  if (const auto problem = prepare_directory(run, *file); !problem.empty())
    return fail(context.err, problem);

  auto options = local_options(*file, run);
  options.trace = arguments.trace;
  options.log_json = arguments.log_json;
  name_agents(options);
  const auto group = telemetry::make_cgroup_for_command();
  std::string not_started;
  std::stop_source over;
  std::stop_source hurry;
  const auto start = [&] {
    auto variables = environment_of(agent_directory(run), file->workers());
    if (arguments.observe)
      variables.emplace_back("DYNAMIX_OBSERVE", std::filesystem::absolute(run.observed()).lexically_normal().string());
    not_started = command.start(arguments.command, variables, group ? group->path() : "");
    if (!not_started.empty())
      over.request_stop();
  };
  commanded_run watch(*file, run, start, command, over, hurry);
  options.observer = &watch;
  options.hurry = hurry.get_token();
  live_output live(context.err,
                   {.width_now = [] { return terminal_width(STDERR_FILENO); }, .interval = progress_interval});
  tell_page(options, live, "dynamix-node: ");
  auto made = run_locally(options, live, over.get_token());
  if (!not_started.empty()) {
    context.err << "dynamix-node: error: " << not_started << "\n";
    return 127;
  }
  if (!made.launched.error.empty())
    context.err << "dynamix-node: warning: " << made.launched.error << "\n";
  if (const int signal = command_process::asked_by(); signal != 0 && !command.started()) {
    context.err << "dynamix-node: stopped before the command began\n";
    return status_of({.by_signal = true, .number = signal});
  }
  if (!command.started()) {
    context.err << made.launched.last_words << "dynamix-node: error: the command was not started\n";
    return exit_failed;
  }
  tell(arguments, *file, run, made, context.err);
  return report_command_end(made, *file, run, watch, status_of(command.wait()), context.err);
}

} // namespace

void add_exec(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<exec_arguments>();
  auto* command =
      app.add_subcommand("exec", "Run a training command of your own with an agent for each of its processes");
  auto* cluster =
      command->add_option("--cluster", arguments->cluster, "Cluster file with training.trainer = \"client\"");
  command->add_option("--workers", arguments->workers, "In place of a cluster file: so many training processes")
      ->check(CLI::Range(1, 256))
      ->excludes(cluster);
  add_set(*command, arguments->set);
  command->add_option("--out,--run", arguments->out,
                      "Run directory, new or empty (default: runs/<cluster>-<policy>-<UTC time>); with --name that of "
                      "the agent");
  command->add_option("--name", arguments->name,
                      "Start no agents: the command joins the running agent of this host, whose run directory is "
                      "--run, and sees the host's GPUs (CUDA_VISIBLE_DEVICES)");
  command->add_option(
      "--slot", arguments->slot,
      "With --name, the command is one process: that of this worker of the host, counted from 0, with its "
      "GPU and its cores alone");
  command->add_flag(
      "--observe", arguments->observe,
      "Only measure a plain DistributedDataParallel script, unchanged, and say at its end what joining would "
      "gain (as `dynamix exec --observe`)");
  command->add_flag("--shadow", arguments->shadow, "Decide and log without changing batch sizes");
  command->add_flag("--trace", arguments->trace, "Trace windows and decisions, for Perfetto");
  command->add_flag("--log-json", arguments->log_json, "Agents log one JSON object per line");
  command->add_option("command", arguments->command, "Behind --: the command and its arguments")->required();
  add_work(*command, context, arguments, exec);
}

} // namespace dynamix::node
