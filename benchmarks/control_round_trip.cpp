/// What a request and its answer between two hosts cost: over CAF's own connection, over a link (TLS 1.3, both sides
/// with a certificate), and over a link whose messages are checked by their sender's name. Three pairs of hosts in this
/// process, in turns. CPU is that of all threads, both hosts'. And how many messages a core-second of its own a host
/// gets through in each form while eight others, in another process, keep requests in flight.

#include "actors/network/control_network.hpp"
#include "actors/network/gateway.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "benchmarks/pair_cost.hpp"
#include "benchmarks/second_process.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dynamix::benchmarks {
namespace {

using namespace actors;

constexpr std::array<const char*, 3> forms = {"clear", "link", "link and check"};
constexpr std::chrono::seconds patience{30};
constexpr std::size_t asking_hosts = 8;
constexpr std::size_t requests_in_flight = 16; ///< of each

struct answering_state {
  static constexpr const char* name = "aggregator";
};
using answering_actor = aggregator_actor::extend_with<greeter_actor>;

/// Answers signs of life.
answering_actor::behavior_type answering(answering_actor::stateful_pointer<answering_state> self) {
  return {
      [](atom::report, const message<messages::window_report>&) {},
      [](atom::evaluation, const message<messages::evaluation_report>&) {},
      [](atom::beat, const message<messages::heartbeat>&) { return atom::beat_v; },
      [](atom::absent, const message<messages::absence>&) {},
      [](atom::settle) { return atom::settle_v; },
      [](atom::farewell, const message<messages::farewell>&) { return atom::farewell_v; },
      [self](atom::hello, const message<messages::hello>&,
             const worker_actor&) -> caf::result<message<messages::welcome>, aggregator_actor> {
        return {pack(messages::welcome{}), caf::actor_cast<aggregator_actor>(self)};
      },
  };
}

worker_actor::behavior_type asking(worker_actor::pointer) {
  return {[](atom::decide, const message<messages::decision>&) {},
          [](atom::place, const message<messages::placement>&, const store_actor&) {},
          [](atom::closed, const message<messages::generation_notice>&) {}, [](atom::stop) {}};
}

struct cost {
  double p50_us = 0;
  double cpu_us = 0;
};

/// What both hosts of a pair have.
class one_host {
public:
  one_host(const std::string& name, const std::string& keys, const cluster::cluster_file& file, std::size_t form) {
    if (form == 0)
      return;
    links::pump_options options{.directory = links::host_directory(keys, name), .host = name, .accepted = {}};
    for (const auto& each : file.hosts)
      options.accepted.insert(each.name);
    std::string problem;
    std::shared_ptr<links::pump> pump = links::pump::start(std::move(options), problem);
    if (!pump)
      throw std::runtime_error(problem);
    door_ = open_door(keys, name);
    door_->lead_to(pump);
    network_ =
        std::make_unique<control_network>(system_, pump, form == 2 ? std::make_shared<authority>(file, name) : nullptr);
  }
  ~one_host() {
    if (network_)
      network_->shut_down();
  }

  caf::actor_system& system() { return system_; }
  control_network* network() { return network_.get(); }
  /// Returns the port.
  std::uint16_t publish(const gateway_actor& gateway) {
    if (!network_) {
      const auto made = system_.middleman().publish(gateway, 0, "127.0.0.1");
      return made ? *made : throw std::runtime_error("no port");
    }
    if (const auto problem = network_->publish(gateway, door_->port()); !problem.empty())
      throw std::runtime_error(problem);
    return door_->port();
  }

private:
  system_config config_{cluster::derive_timeouts(5000)};
  caf::actor_system system_{config_};
  std::unique_ptr<links::door> door_;
  std::unique_ptr<control_network> network_;
};

/// "hub".
class answering_host {
public:
  answering_host(const std::string& keys, const cluster::cluster_file& file, std::size_t form)
      : host_("hub", keys, file, form), aggregator_(host_.system().spawn(answering)),
        door_(host_.system().spawn(gateway, gateway_options{"hub", true}, std::shared_ptr<host_events>())) {
    caf::anon_send(door_, atom::serve_v, caf::actor_cast<greeter_actor>(aggregator_));
    port = host_.publish(caf::actor_cast<gateway_actor>(door_));
  }
  ~answering_host() {
    for (const auto& each : {caf::actor_cast<caf::actor>(aggregator_), caf::actor_cast<caf::actor>(door_)})
      caf::anon_send_exit(each, caf::exit_reason::kill);
  }

  std::uint16_t port = 0;

private:
  one_host host_;
  answering_actor aggregator_;
  gateway_local door_;
};

using repeating_actor = caf::typed_actor<caf::reacts_to<atom::beat>>;

/// Keeps one request in flight until it is ended.
repeating_actor::behavior_type repeating(repeating_actor::pointer self, aggregator_actor aggregator, std::uint32_t rank,
                                         std::atomic<std::uint64_t>* answers) {
  return {[self, aggregator, rank, answers](atom::beat) {
    self->request(aggregator, patience, atom::beat_v, pack(messages::heartbeat{.rank = rank, .incarnation = 1}))
        .then([self, answers](atom::beat) {
          ++*answers;
          self->send(self, atom::beat_v);
        });
  }};
}

/// "w0", "w1", ..., by rank.
class asking_host {
public:
  asking_host(const std::string& keys, const cluster::cluster_file& file, std::size_t form, std::uint32_t rank,
              std::uint16_t port)
      : rank_(rank), host_(file.workers().at(rank)->name, keys, file, form), worker_(host_.system().spawn(asking)) {
    gateway_actor found;
    std::string problem = "not reached";
    if (host_.network() != nullptr)
      found = host_.network()->reach({.host = "hub", .address = "127.0.0.1", .port = port}, 5000, problem);
    else if (auto reached = host_.system().middleman().remote_actor<gateway_actor>("127.0.0.1", port))
      found = *reached;
    if (!found)
      throw std::runtime_error(problem);
    caf::scoped_actor self(host_.system());
    self->request(found, patience, atom::hello_v,
                  pack(messages::hello{.cluster = "cost",
                                       .host = file.workers().at(rank)->name,
                                       .incarnation = 1,
                                       .heartbeat_interval_ms = 1000}),
                  worker_)
        .receive([&](const message<messages::welcome>&, const aggregator_actor& aggregator) { reached_ = aggregator; },
                 [](const caf::error&) { throw std::runtime_error("no welcome"); });
  }
  ~asking_host() {
    caf::anon_send_exit(worker_, caf::exit_reason::kill);
    reached_ = nullptr;
  }

  cost ask(std::size_t times) {
    caf::scoped_actor self(host_.system());
    std::vector<double> taken;
    const double cpu = process_cpu_seconds();
    for (std::size_t i = 0; i < times; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      self->request(reached_, patience, atom::beat_v, pack(messages::heartbeat{.rank = rank_, .incarnation = 1}))
          .receive([](atom::beat) {}, [](const caf::error&) { throw std::runtime_error("no answer"); });
      const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - begin;
      taken.push_back(wall.count());
    }
    std::ranges::sort(taken);
    return {.p50_us = taken[times / 2], .cpu_us = 1e6 * (process_cpu_seconds() - cpu) / static_cast<double>(times)};
  }
  /// So many requests at a time from here on, until the process ends.
  void keep_asking(std::size_t in_flight, std::atomic<std::uint64_t>& answers) {
    for (std::size_t i = 0; i < in_flight; ++i)
      caf::anon_send(host_.system().spawn(repeating, reached_, rank_, &answers), atom::beat_v);
  }

private:
  const std::uint32_t rank_;
  one_host host_;
  worker_actor worker_;
  aggregator_actor reached_;
};

struct two_hosts {
  two_hosts(const std::string& keys, const cluster::cluster_file& file, std::size_t form)
      : aggregator(keys, file, form), worker(keys, file, form, 0, aggregator.port) {}
  answering_host aggregator;
  asking_host worker;
};

cluster::cluster_file describe(std::size_t workers) {
  cluster::cluster_file file;
  file.name = "cost";
  file.hosts = {{.name = "hub", .port = 1, .roles = {cluster::role::arbitrator}}};
  for (std::size_t i = 0; i < workers; ++i)
    file.hosts.push_back({.name = "w" + std::to_string(i), .port = static_cast<std::uint16_t>(i + 2)});
  return file;
}

/// The process of those who ask: says how many answers have come, at every word.
int keep_asking(const std::string& keys, std::size_t form, std::uint16_t port) {
  const auto file = describe(asking_hosts);
  std::vector<std::unique_ptr<asking_host>> hosts;
  for (std::uint32_t rank = 0; rank < asking_hosts; ++rank)
    hosts.push_back(std::make_unique<asking_host>(keys, file, form, rank, port));
  std::atomic<std::uint64_t> answers = 0;
  for (const auto& each : hosts)
    each->keep_asking(requests_in_flight, answers);
  for (;;) {
    second_process::say(fmt::format("{} {}", answers.load(), process_cpu_seconds()));
    if (!second_process::wait_for_word())
      ::_exit(0); // requests are in flight
  }
}

/// Messages a core-second of the host that is asked, and of both processes together, while `turn` lasts.
std::pair<double, double> message_rates(const std::string& keys, std::size_t form, std::chrono::seconds turn) {
  const answering_host aggregator(keys, describe(asking_hosts), form);
  const second_process asking(
      {"--ask", std::to_string(aggregator.port), "--keys", keys, "--form", std::to_string(form)});
  const auto look = [&] {
    std::pair<std::uint64_t, double> seen;
    if (std::sscanf(asking.answer().c_str(), "%lu %lf", &seen.first, &seen.second) != 2)
      throw std::runtime_error("no count");
    return seen;
  };
  look(); // all are connected
  std::this_thread::sleep_for(std::chrono::seconds(1));
  asking.give_word();
  const auto before = look();
  const double own_before = process_cpu_seconds();
  std::this_thread::sleep_for(turn);
  asking.give_word();
  const auto after = look();
  const double own = process_cpu_seconds() - own_before;
  const auto handled = static_cast<double>(2 * (after.first - before.first));
  return {handled / own, handled / (own + after.second - before.second)};
}

void measure_rates(std::size_t rounds, std::chrono::seconds turn) {
  std::vector<std::string> names;
  for (const auto& host : describe(asking_hosts).hosts)
    names.push_back(host.name);
  const passing_keys keys(names);
  std::array<std::vector<double>, 3> own;
  std::array<std::vector<double>, 3> both;
  std::array<std::vector<double>, 3> ratios;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::array<std::pair<double, double>, 3> found;
    for (std::size_t step = 0; step < 3; ++step)
      found[(round + step) % 3] = message_rates(keys.path(), (round + step) % 3, turn);
    for (std::size_t form = 0; form < 3; ++form) {
      own[form].push_back(found[form].first);
      both[form].push_back(found[form].second);
      ratios[form].push_back(found[form].first / found[0].first);
    }
  }
  for (std::size_t form = 0; form < 3; ++form)
    std::printf("control_messages %s: %.0f a core-second of the host that is asked, ratio %.2f; %.0f a core-second of "
                "both sides\n",
                forms[form], median(own[form]), median(ratios[form]), median(both[form]));
}

void measure(std::size_t rounds, std::size_t times) {
  const passing_keys keys({"hub", "w0"});
  const auto file = describe(1);
  std::array<std::vector<double>, 3> wall;
  std::array<std::vector<double>, 3> cpu;
  std::array<std::vector<double>, 3> wall_ratios;
  std::array<std::vector<double>, 3> cpu_ratios;
  {
    two_hosts clear(keys.path(), file, 0);
    two_hosts linked(keys.path(), file, 1);
    two_hosts checked(keys.path(), file, 2);
    const std::array<two_hosts*, 3> pairs = {&clear, &linked, &checked};
    for (std::size_t round = 0; round <= rounds; ++round) { // the first one is a warm-up
      std::array<cost, 3> found;
      for (std::size_t turn = 0; turn < 3; ++turn)
        found[(round + turn) % 3] = pairs[(round + turn) % 3]->worker.ask(times);
      for (std::size_t form = 0; form < 3 && round > 0; ++form) {
        wall[form].push_back(found[form].p50_us);
        cpu[form].push_back(found[form].cpu_us);
        wall_ratios[form].push_back(found[form].p50_us / found[0].p50_us);
        cpu_ratios[form].push_back(found[form].cpu_us / found[0].cpu_us);
      }
    }
  }
  for (std::size_t form = 0; form < 3; ++form)
    std::printf("control_round_trip %s: p50 %.0f us, ratio %.2f; CPU of both hosts %.0f us, ratio %.2f\n", forms[form],
                median(wall[form]), median(wall_ratios[form]), median(cpu[form]), median(cpu_ratios[form]));
}

} // namespace
} // namespace dynamix::benchmarks

int main(int count, char** words) {
  CLI::App app("Cost of a request and its answer over links");
  std::size_t rounds = 11;
  std::size_t times = 1000;
  unsigned seconds = 5;
  std::string keys;
  std::size_t form = 0;
  std::uint16_t port = 0;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_option("--requests", times, "of each form, a round")->check(CLI::Range(1, 1000000));
  app.add_option("--seconds", seconds, "A turn's of messages in flight")->check(CLI::Range(1, 600));
  app.add_option("--ask", port, "Keep asking at this port of loopback")->group("");
  app.add_option("--keys", keys, "Of those who ask")->group("");
  app.add_option("--form", form, "In which they ask")->group("");
  CLI11_PARSE(app, count, words);
  try {
    if (port != 0)
      return dynamix::benchmarks::keep_asking(keys, form, port);
    dynamix::benchmarks::measure(rounds, times);
    dynamix::benchmarks::measure_rates(rounds, std::chrono::seconds(seconds));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_round_trip: %s\n", error.what());
    return 1;
  }
  return 0;
}
