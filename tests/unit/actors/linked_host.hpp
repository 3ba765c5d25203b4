#pragma once

/// One host's process, as far as its gateway goes.

#include "actors/network/control_network.hpp"
#include "actors/network/gateway.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "links/door.hpp"
#include "tests/unit/links/temporary_keys.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace dynamix::actors::testing {

inline constexpr std::chrono::seconds patience{60};
inline constexpr std::uint32_t patience_ms = 10000;

class one_host {
public:
  /// Without `rules`, proven hosts may say anything to it.
  one_host(const std::string& name, const std::string& keys, std::set<std::string> accepted,
           std::function<void(const std::string&)> report, std::shared_ptr<const authority> rules = nullptr)
      : name_(name) {
    std::string problem;
    const auto own = links::host_directory(keys, name);
    pump_ = links::pump::start({.directory = own, .host = name, .accepted = std::move(accepted), .report = report},
                               problem);
    EXPECT_NE(pump_, nullptr) << problem;
    door_ = links::door::start({.directory = own, .host = name, .report = std::move(report)}, problem);
    EXPECT_NE(door_, nullptr) << problem;
    door_->lead_to(pump_);
    EXPECT_EQ(door_->listen("127.0.0.1", 0), "");
    network_ = std::make_unique<control_network>(system_, pump_, std::move(rules));
    start_gateway();
  }
  ~one_host() {
    end_gateway();
    network_->shut_down();
  }

  void start_gateway() { gateway_ = system_.spawn(gateway, gateway_options{name_, true}, events_); }
  void end_gateway() { caf::anon_send_exit(std::exchange(gateway_, nullptr), caf::exit_reason::user_shutdown); }
  /// At its door, whose port is returned.
  std::uint16_t publish() {
    EXPECT_EQ(network_->publish(own(), door_->port()), "");
    return door_->port();
  }
  std::uint16_t publish_in_the_clear() {
    const auto bound = system_.middleman().publish(own(), 0, "127.0.0.1");
    EXPECT_TRUE(bound);
    return bound ? *bound : 0;
  }
  gateway_actor own() const { return caf::actor_cast<gateway_actor>(gateway_); }
  gateway_actor reach(const std::string& host, std::uint16_t port) {
    return network_->reach({.host = host, .address = "127.0.0.1", .port = port}, patience_ms, problem_);
  }
  /// Whether a gateway that this host has reached answers.
  bool asks(const gateway_actor& reached) {
    bool answered = false;
    caf::scoped_actor self(system_);
    const messages::farewell said{.host = "w", .reason = "over", .decisions = {}};
    self->request(reached, patience, atom::finish_v, pack(said))
        .receive([&](atom::finish) { answered = true; }, [](const caf::error&) {});
    return answered;
  }
  bool sees_the_end_of(const gateway_actor& reached) {
    caf::scoped_actor self(system_);
    self->monitor(reached);
    bool ended = false;
    self->receive([&](const caf::down_msg&) { ended = true; }, caf::after(patience) >> [] {});
    return ended;
  }

  caf::actor_system& system() { return system_; }
  links::pump& pump() { return *pump_; }
  control_network& network() { return *network_; }
  const std::string& problem() const { return problem_; }
  const std::shared_ptr<host_events>& events() const { return events_; }

private:
  const std::string name_;
  const std::shared_ptr<host_events> events_ = std::make_shared<host_events>();
  std::shared_ptr<links::pump> pump_;
  std::unique_ptr<links::door> door_;
  system_config config_{cluster::derive_timeouts(5000)};
  caf::actor_system system_{config_};
  std::unique_ptr<control_network> network_;
  gateway_local gateway_;
  std::string problem_;
};

} // namespace dynamix::actors::testing
