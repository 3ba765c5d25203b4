/// How long a worker waits for the decision on its report: an arbitrator's host as it runs in a cluster, and so many
/// worker processes, each with an actor system and a connection over loopback of its own. The workers do everything but
/// train: they report a window, wait for the decision, pause, and report the next.

#include "actors/host/host.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/connector.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "links/sockets.hpp"
#include "trainer/training_module.hpp"

#include <CLI/CLI.hpp>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dynamix::benchmarks {

namespace {

using steady = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{10};

struct latency_plan {
  std::uint32_t workers = 4;
  std::uint32_t windows = 200;
  std::uint32_t warm_up = 20;
  std::uint32_t pause_ms = 20; ///< between a decision and the next report
};

/// Where the worker's actor leaves its place and decisions for the thread that waits.
class decision_box {
public:
  void put(const messages::placement& place) {
    const std::scoped_lock lock(mutex_);
    place_ = place;
    changed_.notify_one();
  }
  /// The worker's place once all workers are there; nothing if they do not come.
  std::optional<messages::placement> wait_for_place() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 3 * patience, [&] { return place_.has_value(); });
    return place_;
  }
  void put(std::uint64_t window) {
    const std::scoped_lock lock(mutex_);
    window_ = std::max(window_, window);
    received_ = steady::now();
    changed_.notify_one();
  }
  /// When the decision on `window` came; nothing if it does not.
  std::optional<steady::time_point> wait(std::uint64_t window) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return window_ >= window; }))
      return std::nullopt;
    return received_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<messages::placement> place_;
  std::uint64_t window_ = 0;
  steady::time_point received_;
};

actors::worker_actor::behavior_type receiver(actors::worker_actor::pointer, std::shared_ptr<decision_box> box) {
  return {
      [box](actors::atom::decide, const messages::message<messages::decision>& received) {
        if (const auto decision = actors::unpack<messages::decision>(received, "benchmark"))
          box->put(decision->key.window);
      },
      [box](actors::atom::place, const messages::message<messages::placement>& received, const actors::store_actor&) {
        if (const auto place = actors::unpack<messages::placement>(received, "benchmark"))
          box->put(*place);
      },
      [](actors::atom::closed, const messages::message<messages::generation_notice>&) {}, [](actors::atom::stop) {}};
}

struct place {
  messages::welcome welcome;
  actors::aggregator_actor aggregator;
};

/// Gives the worker's signs of life.
caf::behavior heart(caf::event_based_actor* self, const place& at, std::chrono::milliseconds interval) {
  self->send(self, actors::atom::beat_v);
  return {[self, at, interval](actors::atom::beat) {
    const messages::heartbeat sign{.rank = at.welcome.rank, .incarnation = static_cast<std::uint64_t>(getpid())};
    // A request: the answer to a plain message would come as one more beat, and set off another.
    self->request(at.aggregator, patience, actors::atom::beat_v, actors::pack(sign))
        .then([](actors::atom::beat) {}, [](const caf::error&) {});
    self->delayed_send(self, interval, actors::atom::beat_v);
  }};
}

/// Connects and says hello until the arbitrator takes the worker in.
place join(caf::actor_system& system, caf::scoped_actor& self, const cluster::cluster_file& file, std::uint32_t rank,
           const actors::worker_actor& worker) {
  const auto& arbitrator = file.arbitrator_host();
  messages::hello hello{.cluster = file.name, .cluster_digest = file.digest(), .host = file.workers()[rank]->name};
  hello.incarnation = static_cast<std::uint64_t>(getpid());
  hello.heartbeat_interval_ms = cluster::derive_timeouts(file.detect_ms).heartbeat_interval_ms;
  for (const auto deadline = steady::now() + 3 * patience; steady::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const auto gateway = system.middleman().remote_actor<actors::gateway_actor>(arbitrator.address, arbitrator.port);
    if (!gateway)
      continue;
    std::optional<place> found;
    self->request(*gateway, patience, actors::atom::hello_v, actors::pack(hello), worker)
        .receive(
            [&](const messages::message<messages::welcome>& answer, const actors::aggregator_actor& aggregator) {
              const auto welcome = actors::unpack<messages::welcome>(answer, "benchmark");
              if (welcome && welcome->verdict == messages::welcome_verdict::accepted)
                found = place{*welcome, aggregator};
            },
            [](const caf::error&) {});
    if (found)
      return *found;
  }
  throw std::runtime_error("the arbitrator does not answer");
}

/// A report like those of a training worker.
messages::window_report report_of(const messages::placement& at, std::uint32_t rank, const std::string& host,
                                  std::uint64_t window) {
  messages::window_report report;
  report.host = host;
  report.rank = rank;
  report.generation = at.generation;
  report.window = window;
  report.first_step = 10 * (window - 1);
  report.batch = 64;
  report.global_batch = std::uint64_t{64} * at.members.size();
  report.elapsed_seconds = 0.1 * static_cast<double>(window);
  report.training = {.steps = 10,
                     .samples = 640,
                     .accuracy = 0.5,
                     .loss = 1,
                     .iteration_seconds = 0.01,
                     .compute_seconds = 0.008,
                     .exchange_seconds = 0.001,
                     .data_seconds = 0.001,
                     .gradient_valid = true,
                     .sigma_norm = 1,
                     .sigma2_norm = 1,
                     .gradient_norm = 1,
                     .noise_scale = 100,
                     .learning_rate = 0.05,
                     .gain = 1};
  report.network = {.valid = true, .throughput_bytes_per_second = 1e7, .rtt_seconds = 1e-4, .retransmissions = 0};
  report.system = {.valid = true, .cpu_time_ratio = 1, .run_queue_wait_ratio = 0.1, .memory_ratio = 0.01};
  return report;
}

/// The milliseconds from each report to its decision.
std::vector<double> run_worker(const latency_plan& plan, const cluster::cluster_file& file, std::uint32_t rank) {
  // Never destroyed: the process ends with _exit, and an orderly shutdown is not what is measured.
  auto& config = *new actors::system_config(cluster::derive_timeouts(file.detect_ms));
  auto& system = *new caf::actor_system(config);
  caf::scoped_actor self(system);
  auto box = std::make_shared<decision_box>();
  const auto worker = system.spawn(receiver, box);
  const place at = join(system, self, file, rank, worker);
  system.spawn(heart, at, std::chrono::milliseconds(cluster::derive_timeouts(file.detect_ms).beat_interval_ms));
  const auto placed = box->wait_for_place();
  if (!placed)
    throw std::runtime_error("the other workers have not come");
  std::vector<double> milliseconds;
  for (std::uint64_t window = 1; window <= plan.warm_up + plan.windows; ++window) {
    const auto report = actors::pack(report_of(*placed, rank, file.workers()[rank]->name, window));
    const auto sent = steady::now();
    self->send(at.aggregator, actors::atom::report_v, report);
    const auto received = box->wait(window);
    if (!received)
      throw std::runtime_error("no decision on window " + std::to_string(window));
    if (window > plan.warm_up)
      milliseconds.push_back(std::chrono::duration<double, std::milli>(*received - sent).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.pause_ms));
  }
  const messages::farewell farewell{.host = file.workers()[rank]->name,
                                    .rank = at.welcome.rank,
                                    .succeeded = true,
                                    .incarnation = static_cast<std::uint64_t>(getpid()),
                                    .end = messages::farewell_end::completed};
  self->request(at.aggregator, patience, actors::atom::farewell_v, actors::pack(farewell))
      .receive([](actors::atom::farewell) {}, [](const caf::error&) {});
  return milliseconds;
}

std::uint16_t free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(descriptor, generic, length) == 0 && getsockname(descriptor, generic, &length) == 0;
  close(descriptor);
  if (!bound)
    throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

cluster::cluster_file describe(const latency_plan& plan) {
  cluster::cluster_file file;
  file.name = "latency";
  file.hosts.push_back({.name = "arbitrator", .port = free_port(), .roles = {cluster::role::arbitrator}});
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank)
    file.hosts.push_back({.name = "worker" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 1)});
  return file;
}

struct child {
  pid_t process = -1;
  int results = -1; ///< end of a pipe that gives doubles
};

/// Runs `work` in a process of its own, which writes what it returns.
template <class Work>
child start(Work work) {
  int ends[2];
  if (pipe(ends) != 0)
    throw std::runtime_error("no pipe");
  const pid_t process = fork();
  if (process < 0)
    throw std::runtime_error("no process");
  if (process > 0) {
    close(ends[1]);
    return {process, ends[0]};
  }
  close(ends[0]);
  int code = 1;
  try {
    const std::vector<double> numbers = work();
    const std::size_t bytes = numbers.size() * sizeof(double);
    code = write(ends[1], numbers.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decision_latency: %s\n", error.what());
  }
  _exit(code);
}

/// All numbers that the children write until they end or the deadline comes; ends those that are left.
std::vector<double> collect(const std::vector<child>& children, steady::time_point deadline) {
  std::vector<double> numbers;
  for (const auto& each : children) {
    std::vector<char> bytes;
    char chunk[4096];
    pollfd wanted{.fd = each.results, .events = POLLIN, .revents = 0};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady::now()).count();
      if (poll(&wanted, 1, static_cast<int>(std::max<std::int64_t>(0, left))) <= 0)
        break;
      const ssize_t got = read(each.results, chunk, sizeof(chunk));
      if (got <= 0)
        break;
      bytes.insert(bytes.end(), chunk, chunk + got);
    }
    close(each.results);
    const auto* first = reinterpret_cast<const double*>(bytes.data());
    numbers.insert(numbers.end(), first, first + bytes.size() / sizeof(double));
  }
  for (const auto& each : children) {
    kill(each.process, SIGKILL);
    waitpid(each.process, nullptr, 0);
  }
  return numbers;
}

int measure(const latency_plan& plan) {
  const auto file = describe(plan);
  std::string directory = (std::filesystem::temp_directory_path() / "dynamix-latency-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr)
    throw std::runtime_error("no temporary directory");
  std::filesystem::create_directory(directory + "/checkpoints");
  std::vector<child> children;
  children.push_back(start([&] {
    const auto outcome = actors::run_host({.file = std::make_shared<const cluster::cluster_file>(file),
                                           .host = "arbitrator",
                                           .run_directory = directory,
                                           .training = &trainer::linked_module()},
                                          {});
    if (!outcome.succeeded)
      throw std::runtime_error("arbitrator: " + outcome.reason);
    return std::vector<double>{};
  }));
  // The workers connect without a probe of their own. CAF 0.17 names a connection after its descriptor and forgets a
  // closed one late, so a probe that closes while another worker connects can take that worker's new connection down
  // with it.
  const auto& arbitrator = file.arbitrator_host();
  std::string ignored;
  for (const auto deadline = steady::now() + patience; steady::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(50)))
    if (links::connect_tcp(arbitrator.address, arbitrator.port, std::chrono::seconds(1), ignored))
      break;
  std::this_thread::sleep_for(std::chrono::milliseconds(200)); // until that probe is forgotten
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank)
    children.push_back(start([&] { return run_worker(plan, file, rank); }));
  auto milliseconds = collect(children, steady::now() + std::chrono::minutes(3));
  std::filesystem::remove_all(directory);
  const std::size_t expected = std::size_t{plan.workers} * plan.windows;
  if (milliseconds.size() != expected) {
    std::fprintf(stderr, "decision_latency: %zu decisions of %zu came\n", milliseconds.size(), expected);
    return 1;
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto percentile = [&](double share) { return milliseconds[static_cast<std::size_t>(share * (expected - 1))]; };
  std::printf("decision_latency_%u p50_ms %.2f p99_ms %.2f decisions %zu\n", plan.workers, percentile(0.5),
              percentile(0.99), expected);
  return 0;
}

} // namespace

} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  dynamix::benchmarks::latency_plan plan;
  CLI::App app("Report sent to decision received");
  app.add_option("--workers", plan.workers)->check(CLI::Range(1, 256));
  app.add_option("--windows", plan.windows)->check(CLI::Range(1, 100000));
  app.add_option("--warm-up", plan.warm_up, "windows that are not counted");
  app.add_option("--pause-ms", plan.pause_ms, "between a decision and the next report");
  CLI11_PARSE(app, argc, argv);
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::err);
  try {
    return dynamix::benchmarks::measure(plan);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decision_latency: %s\n", error.what());
    return 1;
  }
}
