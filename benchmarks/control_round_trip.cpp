/// What a request and its answer between two hosts cost: over CAF's own connection, over a link (TLS 1.3, both sides
/// with a certificate), and over a link whose messages are checked by their sender's name. Three pairs of hosts in this
/// process, in turns. CPU is that of all threads, both hosts'.

#include "actors/control_network.hpp"
#include "actors/gateway.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "benchmarks/pair_cost.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace dynamix::benchmarks {
namespace {

using namespace actors;

constexpr std::array<const char*, 3> forms = {"clear", "link", "link and check"};
constexpr std::chrono::seconds patience{30};

struct answering_state {
  static constexpr const char* name = "hub";
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

/// "hub", which answers, and "w", which asks.
class two_hosts {
public:
  two_hosts(const std::string& keys, const cluster::cluster_file& file, bool linked, bool checked) {
    if (linked)
      for (std::size_t i = 0; i < 2; ++i) {
        const std::string name = file.hosts[i].name;
        std::string problem;
        std::shared_ptr<links::pump> pump = links::pump::start(
            {.directory = links::host_directory(keys, name), .host = name, .accepted = {"w"}}, problem);
        if (!pump)
          throw std::runtime_error(problem);
        doors_[i] = open_door(keys, name);
        doors_[i]->lead_to(pump);
        networks_[i] = std::make_unique<control_network>(*systems_[i], pump,
                                                         checked ? std::make_shared<authority>(file, name) : nullptr);
      }
    hub_ = systems_[0]->spawn(answering);
    door_ = systems_[0]->spawn(gateway, std::string("hub"), true, std::shared_ptr<host_events>());
    worker_ = systems_[1]->spawn(asking);
    caf::anon_send(door_, atom::serve_v, caf::actor_cast<greeter_actor>(hub_));
    meet(linked);
  }
  ~two_hosts() {
    for (const auto& each :
         {caf::actor_cast<caf::actor>(hub_), caf::actor_cast<caf::actor>(door_), caf::actor_cast<caf::actor>(worker_)})
      caf::anon_send_exit(each, caf::exit_reason::kill);
    reached_ = nullptr;
    for (auto& network : networks_)
      if (network)
        network->shut_down();
  }

  cost ask(std::size_t times) {
    caf::scoped_actor self(*systems_[1]);
    std::vector<double> taken;
    const double cpu = process_cpu_seconds();
    for (std::size_t i = 0; i < times; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      self->request(reached_, patience, atom::beat_v, pack(messages::heartbeat{.rank = 0, .incarnation = 1}))
          .receive([](atom::beat) {}, [](const caf::error&) { throw std::runtime_error("no answer"); });
      const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - begin;
      taken.push_back(wall.count());
    }
    std::ranges::sort(taken);
    return {.p50_us = taken[times / 2], .cpu_us = 1e6 * (process_cpu_seconds() - cpu) / static_cast<double>(times)};
  }

private:
  void meet(bool linked) {
    const auto door = caf::actor_cast<gateway_actor>(door_);
    gateway_actor found;
    std::string problem = "not reached";
    if (linked) {
      const auto port = doors_[0]->port();
      problem = networks_[0]->publish(door, port);
      if (problem.empty())
        found = networks_[1]->reach({.host = "hub", .address = "127.0.0.1", .port = port}, 5000, problem);
    } else if (const auto port = systems_[0]->middleman().publish(door, 0, "127.0.0.1")) {
      if (auto reached = systems_[1]->middleman().remote_actor<gateway_actor>("127.0.0.1", *port))
        found = *reached;
    }
    if (!found)
      throw std::runtime_error(problem);
    caf::scoped_actor self(*systems_[1]);
    self->request(
            found, patience, atom::hello_v,
            pack(messages::hello{.cluster = "cost", .host = "w", .incarnation = 1, .heartbeat_interval_ms = 1000}),
            worker_)
        .receive([&](const message<messages::welcome>&, const aggregator_actor& hub) { reached_ = hub; },
                 [](const caf::error&) { throw std::runtime_error("no welcome"); });
  }

  system_config config_{cluster::derive_timeouts(5000)};
  system_config other_config_{cluster::derive_timeouts(5000)};
  caf::actor_system first_{config_};
  caf::actor_system second_{other_config_};
  std::array<caf::actor_system*, 2> systems_ = {&first_, &second_};
  std::array<std::unique_ptr<links::door>, 2> doors_;
  std::array<std::unique_ptr<control_network>, 2> networks_;
  answering_actor hub_;
  gateway_local door_;
  worker_actor worker_;
  aggregator_actor reached_;
};

void measure(std::size_t rounds, std::size_t times) {
  const passing_keys keys({"hub", "w"});
  cluster::cluster_file file;
  file.name = "cost";
  file.hosts = {{.name = "hub", .port = 1, .roles = {cluster::role::arbitrator}}, {.name = "w", .port = 2}};
  std::array<std::vector<double>, 3> wall;
  std::array<std::vector<double>, 3> cpu;
  std::array<std::vector<double>, 3> wall_ratios;
  std::array<std::vector<double>, 3> cpu_ratios;
  {
    two_hosts clear(keys.path(), file, false, false);
    two_hosts linked(keys.path(), file, true, false);
    two_hosts checked(keys.path(), file, true, true);
    const std::array<two_hosts*, 3> pairs = {&clear, &linked, &checked};
    for (std::size_t round = 0; round <= rounds; ++round) { // the first one is a warm-up
      std::array<cost, 3> found;
      for (std::size_t turn = 0; turn < 3; ++turn)
        found[(round + turn) % 3] = pairs[(round + turn) % 3]->ask(times);
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
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_option("--requests", times, "of each form, a round")->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, count, words);
  try {
    dynamix::benchmarks::measure(rounds, times);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_round_trip: %s\n", error.what());
    return 1;
  }
  return 0;
}
