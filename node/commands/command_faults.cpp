#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/fault_run.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/stop_signals.hpp"
#include "storage/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <fmt/core.h>
#include <memory>
#include <optional>
#include <ostream>
#include <sys/resource.h>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds fault_look_interval{5};
constexpr std::size_t summary_bytes_max = 16U << 20;

struct faults_arguments {
  std::string plan;
  std::string cluster;
  std::string out;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> set;
  std::uint32_t repeat = 0; ///< 0: as the plan says
  bool json = false;
};

/// The plan with the command line's changes, or nothing after its errors have been written.
std::optional<faults::fault_plan> load_plan(const faults_arguments& arguments, std::ostream& err) {
  auto read = faults::read_plan(arguments.plan);
  for (const auto& error : read.errors)
    refuse_at(err, error);
  if (!read.errors.empty())
    return std::nullopt;
  read.plan.seed = arguments.seed.value_or(read.plan.seed);
  if (arguments.repeat > 0 && !faults::repeat_faults(read.plan, arguments.repeat)) {
    refuse(err, fmt::format("--repeat is {}, but no fault of the plan repeats", arguments.repeat));
    return std::nullopt;
  }
  if (read.plan.cluster.empty() && arguments.cluster.empty()) {
    refuse_at(err, {read.plan.path, 1, 1, "plan.cluster is missing, and there is no --cluster"});
    return std::nullopt;
  }
  return std::move(read.plan);
}

/// What the cluster and this machine say about the plan. Returns exit_done, or what to end with after the errors have
/// been written.
int check(const faults::fault_plan& plan, const cluster::cluster_file& file, std::ostream& err) {
  const int code = check_machine(file, err);
  const auto errors = faults::check_targets(plan, file);
  for (const auto& error : errors)
    refuse_at(err, error);
  return errors.empty() ? code : exit_refused;
}

bool uses(const faults::fault_plan& plan, faults::fault_kind kind) {
  return std::ranges::any_of(plan.rules,
                             [&](const auto& rule) { return std::ranges::find(rule.kinds, kind) != rule.kinds.end(); });
}

/// Lets every host's wall clock be moved. Returns an empty string, or what is wrong.
std::string add_clock_shim(launch_options& options) {
  const auto shim = faults::clock_shim_path(options.program);
  if (shim.empty())
    return "libdynamix_clock_shim.so is neither beside " + options.program +
           " nor in ../libexec/dynamix; clock_jump needs it";
  for (const auto& host : options.file.hosts) {
    const auto path = faults::wall_clock_path(options.run.path(), host.name);
    if (!faults::wall_clock(path).works())
      return "cannot make " + path;
    options.more_environment[host.name] = {{"LD_PRELOAD", shim}, {"DYNAMIX_CLOCK_FILE", path}};
  }
  return "";
}

/// Children inherit both: a full disk is an error of a write, and a crash leaves no core behind.
void prepare_children() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

/// Who joins is started by the plan; training processes of the user's find their agents at sockets by rank.
void add_joining(launch_options& options) {
  for (const auto& host : options.file.hosts)
    if (faults::joins(host)) {
      options.later.insert(host.name);
      if (host.workers > 1)
        options.more_arguments[host.name] = {"--workers", std::to_string(host.workers)};
    }
  if (options.file.training.trainer == cluster::trainer_kind::client)
    name_agents(options);
}

faults::run_figures figures_of(const local_run& harmed, const std::optional<local_run>& unharmed) {
  const auto& summary = harmed.summary;
  const auto& decisions = summary.decisions;
  faults::run_figures figures{.succeeded = harmed.succeeded(),
                              .reason = !harmed.launched.error.empty() ? harmed.launched.error
                                        : harmed.launched.stopped      ? "it was stopped"
                                                                       : summary.reason,
                              .decisions_made = decisions.made,
                              .decisions_applied = decisions.applied,
                              .decisions_lost = decisions.lost,
                              .decisions_duplicated = decisions.duplicated,
                              .stale_refused = decisions.stale_refused,
                              .unapplied_by_loss = decisions.unapplied_by_loss,
                              .losses = decisions.losses,
                              .left = summary.left,
                              .steps = summary.steps,
                              .samples = summary.samples,
                              .samples_dropped = summary.samples_dropped,
                              .samples_repeated = summary.samples_repeated,
                              .final_accuracy = summary.final_accuracy,
                              .seconds = summary.wall_seconds};
  if (unharmed) {
    figures.unharmed_accuracy = unharmed->summary.final_accuracy;
    figures.unharmed_seconds = unharmed->summary.wall_seconds;
  }
  return figures;
}

/// Puts the verdict into summary.json. Returns an empty string, or what went wrong.
std::string write_verdict(const run_directory& run, const std::string& verdict) {
  std::string text;
  if (auto problem = storage::read_file(run.summary(), summary_bytes_max, text); !problem.empty())
    return problem;
  auto summary = json::parse(text, nullptr, false);
  summary["faults"] = json::parse(verdict, nullptr, false);
  return storage::write_file_atomically(run.summary(),
                                        summary.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

/// The same cluster without a fault, for its final accuracy. Nothing after the reason has been written.
std::optional<local_run> run_unharmed(const cluster::cluster_file& file, const run_directory& run, live_output& live,
                                      const stop_signals& signals, std::ostream& err) {
  const run_directory apart(run.path() + "/unharmed");
  if (const auto problem = prepare_directory(apart, file); !problem.empty()) {
    err << "dynamix-node: error: " << problem << "\n";
    return std::nullopt;
  }
  live.heading("without faults");
  auto options = local_options(file, apart);
  options.hurry = signals.hurried();
  auto unharmed = run_locally(options, live, signals.token());
  if (unharmed.succeeded())
    return unharmed;
  if (signals.token().stop_requested()) {
    err << "dynamix-node: stopped in the run without faults, before any fault\n";
    return std::nullopt;
  }
  err << "dynamix-node: error: the run without faults failed: "
      << (unharmed.launched.error.empty() ? unharmed.summary.reason : unharmed.launched.error) << "\n"
      << unharmed.launched.last_words;
  return std::nullopt;
}

struct broken_run {
  faults::fault_plan plan;
  cluster::cluster_file unharmed; ///< on the file's own addresses
  cluster::cluster_file file;
  run_directory run;
  faults::namespaces apart; ///< none: on loopback, with the proxy
};

int run_harmed(const faults_arguments& arguments, broken_run& setting, command_context& context) {
  const auto& [plan, plain, file, run, apart] = setting;
  const stop_signals signals(second_signal::hurries); // before any other thread
  prepare_children();
  live_output live(arguments.json ? context.err : context.out, output_style::detect());
  if (const auto problem = prepare_directory(run, file); !problem.empty())
    return fail(context.err, problem);
  std::optional<local_run> unharmed;
  if (plan.compare && !(unharmed = run_unharmed(plain, run, live, signals, context.err)))
    return exit_failed;

  const auto all = faults::with_joining(plan, file);
  auto options = local_options(all, run);
  options.hurry = signals.hurried();
  add_joining(options);
  for (const auto& host : file.hosts)
    if (apart.created())
      options.command_prefix[host.name] = apart.command(host.name);
  faults::proxy through;
  std::string problem;
  std::vector<faults::proxied_link> links;
  if (!apart.created())
    links = proxy_links(all, through, options, problem);
  if (problem.empty() && uses(plan, faults::fault_kind::clock_jump))
    problem = add_clock_shim(options);
  if (!problem.empty())
    return refuse(context.err, problem);
  live.heading(fmt::format("under {}, seed {}", plan.name, plan.seed));
  fault_run faults(plan, all, run, through, std::move(links), live);
  if (apart.created())
    faults.use(setting.apart);
  options.observer = &faults;
  options.look_interval = fault_look_interval;
  const auto harmed = run_locally(options, live, signals.token());

  auto figures = figures_of(harmed, unharmed);
  figures.complaints = faults.complaints(signals.hurried());
  figures.growth = faults.growth();
  figures.plan_done = faults.plan_done();
  figures.interrupted = harmed.launched.stopped;
  figures.end_seconds = faults.end_seconds();
  const auto records = faults.records();
  const auto judged = faults::judge(plan, records, faults.rows(), figures);
  const auto text = to_json(judged, plan, records);
  problem = harmed.problem.empty() ? write_verdict(run, text) : harmed.problem;
  if (!problem.empty())
    context.err << "dynamix-node: error: " << problem << "\n";
  if (arguments.json)
    context.out << text << "\n";
  else
    live.print(to_text(judged) + "run directory: " + run.path());
  context.err << harmed.launched.last_words;
  return judged.clean && problem.empty() ? exit_done : exit_failed;
}

/// Gives every host a namespace and its address there. Returns an empty string, or why that cannot be.
std::string move_into(faults::namespaces& apart, cluster::cluster_file& file) {
  std::vector<std::string> names;
  for (const auto& host : file.hosts)
    names.push_back(host.name);
  if (auto reason = apart.create(names); !reason.empty())
    return reason;
  for (auto& host : file.hosts)
    host.address = apart.address(host.name);
  return "";
}

int run_faults(const faults_arguments& arguments, command_context& context) {
  const auto plan = load_plan(arguments, context.err);
  if (!plan)
    return exit_refused;
  auto file = load_cluster_file(arguments.cluster.empty() ? faults::cluster_path(*plan) : arguments.cluster,
                                context.err, changes_of(arguments.set));
  if (!file)
    return exit_refused;
  cluster::make_paths_absolute(*file);
  if (const int code = check(*plan, *file, context.err); code != exit_done)
    return code;
  const auto run = arguments.out.empty() ? make_default_run("faults-" + plan->name) : run_directory(arguments.out);
  if (!run.empty())
    return refuse(context.err, run.path() + " exists and is not empty; choose another --out");
  broken_run setting{.plan = *plan, .unharmed = *file, .file = *file, .run = run};
  if (plan->network == faults::fault_network::namespaces)
    if (const auto reason = move_into(setting.apart, setting.file); !reason.empty()) {
      context.err << "skipped: " << reason << "\n";
      if (arguments.json)
        context.out << nlohmann::json{{"skipped", reason}}.dump(2) << "\n";
      return exit_done;
    }
  return run_harmed(arguments, setting, context);
}

} // namespace

void add_faults(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<faults_arguments>();
  auto* command =
      app.add_subcommand("faults", "Run a cluster on this machine, inject a plan's faults and judge the outcome");
  command->add_option("--plan", arguments->plan, "Fault plan, such as those under deployments/faults")->required();
  command->add_option("--cluster", arguments->cluster, "Overrides the plan's cluster file");
  add_set(*command, arguments->set);
  command->add_option("--out", arguments->out, "Run directory, new or empty (default: runs/faults-<plan>-<UTC time>)");
  command->add_option("--seed", arguments->seed, "Overrides the plan's seed")->check(refuse_number);
  command->add_option("--repeat", arguments->repeat, "Overrides the plan's repeat, in each fault that repeats")
      ->check(CLI::Range(1U, faults::endless - 1));
  command->add_flag("--json", arguments->json, "Print the verdict as JSON, and nothing else, on standard output");
  add_work(*command, context, arguments, run_faults);
}

} // namespace dynamix::node
