#include "actors/host/control_ports.hpp"
#include "actors/host/host.hpp"
#include "cluster/places.hpp"
#include "dashboard/dashboard.hpp"
#include "ledger/codec.hpp"
#include "links/file_signature.hpp"
#include "links/key_directory.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/swarm_setup.hpp"
#include "node/launch/host_display.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/port_check.hpp"
#include "node/launch/preemption_watch.hpp"
#include "node/launch/resume_point.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/run_end.hpp"
#include "node/launch/run_lock.hpp"
#include "node/launch/service_manager.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/commit.hpp"
#include "node/reports/results.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "storage/atomic_file.hpp"
#include "storage/json_text.hpp"
#include "telemetry/kernel_session.hpp"
#include "telemetry/logging.hpp"
#include "telemetry/privileges.hpp"
#include "trainer/checkpoint.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

extern "C" void MallocExtension_ReleaseFreeMemory() __attribute__((weak)); // of tcmalloc, where that is linked

namespace dynamix::node {
namespace {

constexpr std::chrono::minutes results_written_within{5};
constexpr std::chrono::seconds lock_patience{30}; ///< who leaves writes a checkpoint first

struct run_arguments {
  std::string cluster;
  std::string name;
  std::string address; ///< of a host that the file does not name
  std::string preemption;
  std::uint32_t workers = 1; ///< of such a host
  std::string out;
  std::string resume;
  std::string keys;
  std::vector<std::string> set;
  std::vector<std::string> reach; ///< HOST=ADDRESS:PORT
  std::vector<std::string> agent_sockets;
  std::string log_level = "info";
  bool insecure = false;
  bool log_to_stderr = false;
  bool log_json = false;
  bool trace = false;
  bool without_worker = false;
  std::uint32_t swarm_processes = 0;
};

std::string host_key(const cluster::cluster_file& file, const cluster::host& host) {
  return fmt::format("host[{}]", &host - file.hosts.data());
}

/// Whether an earlier run of this host would be written over. Hosts may share a run directory.
std::string find_leftovers(const run_directory& run, const cluster::cluster_file& file, const cluster::host& host) {
  // Replicas that share a directory write one ledger, each when it leads; what is their own is the journal.
  const auto own = file.arbitrator.replicas.empty() ? run.ledger() : run.path() + "/replica-" + host.name;
  const bool ledger = host.has(cluster::role::arbitrator) && std::filesystem::exists(own);
  const auto members = host.members();
  if (ledger || std::ranges::any_of(
                    members, [&](const auto* worker) { return std::filesystem::exists(run.worker(worker->name)); }))
    return run.path() + " holds a run of host " + host.name + " already; choose another --out, or --resume it";
  return "";
}

/// Whether this run's keys outlive it, so that whoever resumes it can check what they have signed.
bool has_lasting_keys(const run_directory& run, const cluster::cluster_file& file) {
  const auto keys = std::filesystem::weakly_canonical(key_directory_of(file)).string();
  return !file.security.keys.empty() && !keys.starts_with(std::filesystem::weakly_canonical(run.path()).string() + "/");
}

/// The saved learner that the cluster file names and this host begins with; empty: none.
std::string given_policy(const cluster::cluster_file& file, const cluster::host& host,
                         const actors::host_options& options) {
  const auto& arbitrator = file.arbitrator;
  const bool learns = host.has(cluster::role::arbitrator) && cluster::has_parameters(arbitrator.policy);
  const bool begins = learns && options.policy_from.empty() && !arbitrator.policy_file.empty();
  return begins ? cluster::resolve_path(file, arbitrator.policy_file) : "";
}

/// Refuses a file to go on from that was changed since a host has signed it, and says which one nobody has signed.
/// Returns exit_done or what to end with.
int check_signer(const std::string& path, const actors::host_options& options, std::ostream& err) {
  std::string contents;
  if (auto problem = storage::read_file(path, trainer::checkpoint_bytes_max, contents); !problem.empty())
    return refuse(err, problem);
  const auto checked = links::check_signature(
      path, {reinterpret_cast<const std::uint8_t*>(contents.data()), contents.size()}, options.keys, options.host);
  if (!checked.problem.empty())
    return refuse(err, checked.problem);
  if (checked.signer.empty() && !is_shipped(path, "policies/ppo.dynamix"))
    err << "dynamix-node: warning: " << path << " is signed by nobody: whose it is cannot be told\n";
  return exit_done;
}

/// Fills in where the actors go on: every worker may be the one whose state the others start from. Returns exit_done,
/// or what to end with after the reason has been written.
int find_resume_options(const run_directory& run, const cluster::host& host, actors::host_options& options,
                        std::ostream& err) {
  if (host.has(cluster::role::arbitrator) && std::filesystem::exists(run.policy()) &&
      cluster::has_parameters(options.file->arbitrator.policy))
    options.policy_from = run.policy();
  const bool checks = has_lasting_keys(run, *options.file);
  if (checks && !options.policy_from.empty())
    if (const int code = check_signer(options.policy_from, options, err); code != exit_done)
      return code;
  if (!host.has(cluster::role::worker) && !run.exists())
    return refuse(err, "there is no run directory " + run.path() + " to resume in");
  if (host.has(cluster::role::worker))
    if (const int code = find_host_resume_point(run, err, options.resume_from); code != exit_done)
      return code;
  if (checks && !options.resume_from.empty())
    if (const int code = check_signer(options.resume_from, options, err); code != exit_done)
      return code;
  std::error_code ignored; // what an earlier life said last is no longer the last
  for (const auto* worker : host.members())
    std::filesystem::remove(run.worker(worker->name), ignored);
  return exit_done;
}

/// HOST=ADDRESS:PORT. Returns an empty string, or what is wrong.
std::string read_reach(const std::vector<std::string>& texts, actors::host_options& options) {
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    const auto colon = text.rfind(':');
    std::uint16_t port = 0;
    const auto* last = text.data() + text.size();
    const auto read = std::from_chars(colon == std::string::npos ? last : text.data() + colon + 1, last, port);
    if (equals == std::string::npos || colon == std::string::npos || colon < equals || read.ptr != last ||
        read.ec != std::errc() || port == 0 || options.file->find(text.substr(0, equals)) == nullptr)
      return "--reach is " + text + "; it must be HOST=ADDRESS:PORT with a host of the cluster file";
    options.reach[text.substr(0, equals)] = {text.substr(equals + 1, colon - equals - 1), port};
  }
  return "";
}

/// Where training processes join. Returns an empty string, or what is wrong.
std::string find_agent_sockets(const std::vector<std::string>& given, const run_directory& run,
                               actors::host_options& options) {
  const auto workers = options.own()->members().size();
  if (!given.empty() && given.size() != workers)
    return fmt::format("--agent-socket is given {} times; host {} has {} workers", given.size(), options.host, workers);
  options.agent_sockets = given;
  for (std::size_t slot = given.size(); slot < workers; ++slot)
    options.agent_sockets.push_back(run.agent(slot));
  return "";
}

/// Before the first socket is made, and the last that takes privileges.
std::shared_ptr<telemetry::kernel_session> start_measuring(const actors::host_options& options) {
  const auto& sources = options.file->telemetry_sources;
  std::shared_ptr<telemetry::kernel_session> session;
  if (options.own()->members().size() > 1) {
    const std::string problem = "its programs follow one process, and this host has several workers";
    session = std::make_shared<telemetry::kernel_session>();
    session->network_problem = session->scheduler_problem = problem;
    session->of_another = true;
  } else if (options.own()->has(cluster::role::worker) &&
             std::ranges::find(sources, cluster::telemetry_source::ebpf) != sources.end())
    session = options.file->training.trainer == cluster::trainer_kind::client
                  ? telemetry::open_kernel_session_of_another()
                  : telemetry::open_kernel_session(actors::control_ports(options));
  if (const auto problem = telemetry::drop_privileges(); !problem.empty())
    spdlog::warn("privileges_kept reason={}", storage::quoted(problem));
  // Loading kernel programs takes a dozen MiB for a moment, which the allocator would keep.
  if (MallocExtension_ReleaseFreeMemory != nullptr)
    MallocExtension_ReleaseFreeMemory();
  return session;
}

/// Nobody feeds the watchdog any more, and results of a long run take a while to write.
std::string stopping(const std::string& status) {
  return fmt::format("STOPPING=1\nSTATUS={}\nWATCHDOG=1\nEXTEND_TIMEOUT_USEC={}", status,
                     std::chrono::microseconds(results_written_within).count());
}

/// A service is ready once its actors are there; with a watchdog it says that it is alive as long as its supervision
/// is.
void tell_service(const service_manager& manager, actors::host_options& options) {
  options.watch = {.started =
                       [&manager, host = *options.own()] {
                         manager.tell(
                             fmt::format("READY=1\nSTATUS={} runs as {}", host.name, cluster::roles_text(host)));
                       },
                   .alive = [&manager] { manager.tell("WATCHDOG=1"); },
                   .alive_interval = manager.watchdog_interval(),
                   .ending = [&manager] { manager.tell(stopping("takes its actors down")); }};
}

/// For a person, of a host whose part is not done.
std::string why_undone(exit_code code, const std::string& reason, const run_directory& run) {
  const char* what = code == exit_failed       ? "error"
                     : code == exit_unfinished ? "error: training was ended before its end"
                                               : "stopped before the end";
  return fmt::format("dynamix-node: {}: {}\nGo on by the same command with --resume {}\n", what, reason,
                     shell_quoted(run.path()));
}

/// `display`: null where nobody is shown the run.
int train(actors::host_options options, const run_directory& run, const actors::host_stop_tokens& stop,
          host_display* display, std::ostream& err) {
  const service_manager manager;
  tell_service(manager, options);
  // From before the first row until the results are written.
  const bool arbitrates = options.own()->has(cluster::role::arbitrator);
  const auto page = arbitrates ? dashboard::start(*options.file, options.host, run.ledger(),
                                                  [file = options.file] { return key_warnings(*file); })
                               : dashboard::running_dashboard{};
  if (display != nullptr)
    display->begin(page.http);
  const auto outcome = actors::run_host(options, stop);
  manager.tell(stopping("writes results: " + printable(outcome.reason)));
  bool succeeded = outcome.succeeded;
  auto reason = outcome.reason;
  const auto fail_by = [&](const char* event, const std::string& problem) {
    spdlog::error("{} error={}", event, storage::quoted(problem));
    if (std::exchange(succeeded, false))
      reason = problem;
  };
  for (const auto& [ended, said, evaluations] : outcome.workers)
    if (!said.host.empty() && (said.steps > 0 || outcome.left))
      if (const auto problem =
              storage::write_file_atomically(run.worker(said.host), ledger::to_json(said, evaluations));
          !problem.empty())
        fail_by("farewell_not_written", problem);
  // The arbitrator's ledger tells the whole run.
  run_summary summary;
  const bool whole = options.file->arbitrator_host().name == options.host && !outcome.left;
  if (whole)
    if (const auto problem = write_results(run, {}, succeeded ? "" : reason, summary); !problem.empty())
      fail_by("results_not_written", problem);
  const bool completed = succeeded && !outcome.stopped;
  if (succeeded && (completed || outcome.left))
    spdlog::info("host_ended reason={}", storage::quoted(reason));
  else if (outcome.stopped)
    spdlog::warn("host_stopped reason={} checkpoint={}", storage::quoted(reason), storage::quoted(outcome.checkpoint));
  else
    spdlog::error("host_failed reason={} checkpoint={}", storage::quoted(reason), storage::quoted(outcome.checkpoint));
  spdlog::default_logger()->flush();
  if (display != nullptr)
    display->end(whole ? &summary : nullptr, printable(reason));
  const auto code = exit_of_host({.succeeded = succeeded,
                                  .completed = completed,
                                  .stopped = outcome.stopped,
                                  .left = outcome.left,
                                  .asked = stop.stop.stop_requested()});
  if (display != nullptr && code != exit_done)
    err << why_undone(code, printable(reason), run);
  return code;
}

/// This host as it joins an open cluster. Null where the file names it and, with the reason, where it cannot.
std::shared_ptr<const cluster::host> find_guest(const cluster::cluster_file& file, const run_arguments& arguments,
                                                std::string& problem) {
  if (const auto* named = file.find(arguments.name); named != nullptr && !cluster::is_place(*named)) {
    if (!arguments.address.empty() || arguments.workers > 1)
      problem = fmt::format("--address and --workers are for hosts that join an open cluster; {} has those of {}",
                            arguments.cluster, arguments.name);
    return nullptr;
  }
  if (arguments.workers > 1 && file.training.trainer != cluster::trainer_kind::client)
    problem = "--workers is for training processes of others, which need training.trainer = \"client\"";
  else if (file.membership != cluster::membership_kind::open)
    problem =
        fmt::format("--name is {}, which is not a host of {}; it has {}. Name it there on all hosts, or let others "
                    "join with cluster.membership = \"open\"",
                    arguments.name, arguments.cluster, listed(file.hosts, &cluster::host::name));
  else if (!cluster::is_host_name(arguments.name))
    problem = fmt::format("--name is {}; it must be 1 to 64 letters, digits, '.', '_' and '-'", arguments.name);
  const auto& arbitrator = file.arbitrator_host();
  const auto address =
      arguments.address.empty() ? address_towards(arbitrator.address, arbitrator.port) : arguments.address;
  if (problem.empty() && !cluster::is_address(address))
    problem =
        fmt::format("--address {}; it must be an address of this machine at which the other workers reach it",
                    address.empty() ? "is needed: this machine does not reach " + arbitrator.address : "is " + address);
  if (!problem.empty())
    return nullptr;
  cluster::host guest{.name = arguments.name, .address = address, .workers = arguments.workers};
  guest.slots = cluster::make_slots(guest);
  return std::make_shared<const cluster::host>(std::move(guest));
}

/// Loads what trains where this host trains or learns, and has it look at what its worker would train.
std::optional<cluster::file_error> find_trainer(actors::host_options& options) {
  if (!options.trains() && !options.learns())
    return std::nullopt;
  const auto& file = *options.file;
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr)
    return options.trains() ? cluster::error_at(file, "training.trainer", loaded.problem) : refuse_learning(file);
  options.training = loaded.module;
  if (!options.trains() || !options.own()->has(cluster::role::worker))
    return std::nullopt;
  const auto found = loaded.module->preflight(file);
  return found.message.empty() ? std::nullopt : std::optional(cluster::error_at(file, found.field, found.message));
}

/// Makes the directory, which nobody else runs then, and the host's log. Returns an empty string, or what is wrong.
std::string begin_run(const run_directory& run, const cluster::cluster_file& file, const std::string& host,
                      const run_arguments& arguments, const std::stop_token& stop) {
  auto problem = run.create();
  if (problem.empty())
    problem = lock_run(run, host, lock_patience, stop);
  if (problem.empty())
    problem = keep_cluster_copy(run, file);
  if (problem.empty())
    problem = telemetry::start_logging({.host = arguments.name,
                                        .file = arguments.log_to_stderr ? "" : run.log(arguments.name),
                                        .console = arguments.log_to_stderr,
                                        .json = arguments.log_json,
                                        .level = arguments.log_level});
  return problem;
}

/// Where this host is to listen. Returns exit_done, or what to end with after the reason has been written.
int check_own_address(const actors::host_options& options, std::ostream& err) {
  const auto& host = *options.own();
  if (const auto refused = options.guest ? std::nullopt : check_port(*options.file, host)) {
    refuse_at(err, *refused);
    return exit_failed; // what is in use now may be free at the next start
  }
  if (const auto caution = loopback_caution(*options.file, host, addresses_of(host.address)); !caution.empty())
    spdlog::warn("listens_on_loopback reason={}", storage::quoted(caution));
  return exit_done;
}

/// From a notice on the host leaves as on SIGTERM. Null: nobody would give one.
std::unique_ptr<preemption_watch> watch_for_preemption(const std::string& given, const run_directory& run,
                                                       const actors::host_options& options, stop_signals& signals) {
  const auto& source = given.empty() ? options.own()->preemption : given;
  if (source.empty())
    return nullptr;
  const bool runs = source.starts_with("command:");
  return std::make_unique<preemption_watch>(
      runs || !given.empty() ? source : cluster::resolve_path(*options.file, source),
      run.path() + "/preemption-" + options.host, [&signals](const preemption_notice& notice) {
        spdlog::warn("preempted seconds={} source={}: this host leaves", notice.seconds,
                     storage::quoted(notice.source));
        signals.request_leave();
      });
}

int run(const run_arguments& arguments, command_context& context) {
  stop_signals signals; // before any other thread
  auto loaded = load_cluster_file(arguments.cluster, context.err, changes_of(arguments.set));
  if (!loaded)
    return exit_refused;
  if (!arguments.keys.empty())
    loaded->security.keys = std::filesystem::absolute(arguments.keys).string();
  const auto file = std::make_shared<const cluster::cluster_file>(cluster::with_places(std::move(*loaded)));
  actors::host_options options{.file = file, .host = arguments.name};
  std::string problem;
  options.guest = find_guest(*file, arguments, problem);
  if (!problem.empty())
    return refuse(context.err, problem);
  if (const auto reason = read_reach(arguments.reach, options); !reason.empty())
    return refuse(context.err, reason);
  const auto* host = options.own();
  if (const auto reason = cluster::refuse_listen(*file, *host, arguments.insecure); !reason.empty())
    return options.guest
               ? refuse(context.err, reason)
               : refuse_at(context.err, cluster::error_at(*file, host_key(*file, *host) + ".address", reason));
  if (const auto reason = refuse_replicas_without_keys(*file); !reason.empty())
    return refuse_at(context.err, cluster::error_at(*file, "arbitrator.replicas", reason));
  if (const auto reason = refuse_keys(*file, host->name); !reason.empty())
    return arguments.keys.empty() ? refuse_at(context.err, cluster::error_at(*file, "security.keys", reason))
                                  : refuse(context.err, "--keys: " + reason);
  if (host->has(cluster::role::arbitrator))
    if (const auto refused = dashboard::refuse_access(*file, host->name))
      return refuse_at(context.err, cluster::error_at(*file, refused.field, refused.reason));
  options.without_worker = arguments.without_worker;
  if (const auto refused = find_trainer(options))
    return refuse_at(context.err, *refused);

  const bool resume = !arguments.resume.empty();
  const auto& named = resume ? arguments.resume : arguments.out;
  const auto run = named.empty() ? make_default_run(*file) : run_directory(named);
  if (const auto reason = resume ? "" : find_leftovers(run, *file, *host); !reason.empty())
    return refuse(context.err, reason);
  options.run_directory = run.path();
  options.version = program_version();
  options.trace = arguments.trace;
  if (arguments.swarm_processes > 0)
    options.stand_ins = swarm_stand_ins(*file, arguments.swarm_processes);
  if (const auto reason = find_agent_sockets(arguments.agent_sockets, run, options); !reason.empty())
    return refuse(context.err, reason);
  if (!file->security.keys.empty())
    options.keys = links::host_directory(key_directory_of(*file), host->name);
  if (has_lasting_keys(run, *file))
    options.write_file = links::signing_writer(options.keys, host->name);
  if (problem = resume ? lock_run(run, host->name, lock_patience, signals.token()) : ""; !problem.empty())
    return refuse(context.err, problem);
  if (const int code = resume ? find_resume_options(run, *host, options, context.err) : exit_done; code != exit_done)
    return code;
  if (const auto given = given_policy(*file, *host, options); has_lasting_keys(run, *file) && !given.empty())
    if (const int code = check_signer(given, options, context.err); code != exit_done)
      return code;
  if (options.policy_from.empty())
    options.policy_from = find_default_parameters(*file);

  if (problem = begin_run(run, *file, host->name, arguments, signals.token()); !problem.empty())
    return fail(context.err, problem);
  if (const int code = check_own_address(options, context.err); code != exit_done)
    return code;
  options.kernel = start_measuring(options);
  const auto watch = watch_for_preemption(arguments.preemption, run, options, signals);
  std::optional<host_display> display;
  if (!arguments.log_to_stderr && arguments.swarm_processes == 0)
    display.emplace(*file, *host, run, context.out);
  return train(std::move(options), run, {.stop = signals.token(), .one_host = signals.terminated()},
               display ? &*display : nullptr, context.err);
}

} // namespace

void add_run(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<run_arguments>();
  auto* command = app.add_subcommand("run", "Run this host's part of a cluster, in the foreground");
  command->add_option("--cluster", arguments->cluster, "Cluster file, the same on all hosts")->required();
  command
      ->add_option("--name", arguments->name,
                   "This host's name in the cluster file, or any for one that joins an open cluster")
      ->required();
  command
      ->add_option("--workers", arguments->workers,
                   "Training processes that join at a host that joins an open cluster (default: one)")
      ->check(CLI::Range(1, 256));
  command->add_option("--preemption", arguments->preemption,
                      "What tells that the host's provider takes it back: a file, or command:COMMAND (default: "
                      "host.preemption)");
  command->add_option("--address", arguments->address,
                      "Where the other workers reach a host that joins an open cluster (default: from where it reaches "
                      "the arbitrator)");
  add_set(*command, arguments->set);
  auto* out =
      command->add_option("--out", arguments->out, "Run directory (default: runs/<cluster>-<policy>-<UTC time>)");
  command
      ->add_option("--resume", arguments->resume,
                   "Run directory to resume from its newest checkpoint or, where it has none, from the start")
      ->excludes(out);
  command->add_option("--keys", arguments->keys,
                      "Directory of the hosts' keys (dynamix-node keys); overrides the file's security.keys");
  command->add_flag("--insecure", arguments->insecure,
                    "Listen beyond loopback without keys, although nothing authenticates peers then");
  command->add_flag("--log-to-stderr", arguments->log_to_stderr,
                    "Log to standard error, not to logs/<host>.log; prints no progress and no results");
  command->add_flag("--log-json", arguments->log_json, "Log one JSON object per line");
  command->add_flag("--trace", arguments->trace,
                    "Trace this host to traces/HOST.jsonl; `dynamix-node trace` joins the hosts' files");
  command
      ->add_option("--agent-socket", arguments->agent_sockets,
                   "Where the training process joins, if the file's trainer is a client, once for each of the host's "
                   "workers (default: agents/0.sock, agents/1.sock ... in the run directory)")
      ->allow_extra_args(false);
  command->add_flag("--without-worker", arguments->without_worker, "Run this host's arbitrators alone")->group("");
  command->add_option("--swarm-processes", arguments->swarm_processes, "Take so many processes for all its workers")
      ->group(""); // for `swarm`
  command->add_option("--reach", arguments->reach, "HOST=ADDRESS:PORT: dial this host there, not as the file says")
      ->group(""); // for the fault injector: not in --help
  command->add_option("--log-level", arguments->log_level, "trace, debug, info, warn or error")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  add_work(*command, context, arguments, run);
}

} // namespace dynamix::node
