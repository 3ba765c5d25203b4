// How often a report is encoded and decoded on its way from a training thread to the ledger, between two actor systems
// that are connected over loopback as two hosts are.

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/network/gateway.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "actors/worker/telemetry.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>

namespace dynamix::actors::testing {
namespace {

constexpr std::chrono::seconds patience{60};

class newest_window final : public ledger::writer {
public:
  void append(const ledger::row& row) override {
    const std::scoped_lock lock(mutex_);
    if (const auto* window = std::get_if<ledger::window>(&row.entry))
      newest_ = window->key.window;
  }
  /// For the row of this window; those before it have been decided on, or never will be.
  bool wait_for(std::uint64_t window, std::chrono::seconds longest) {
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (std::chrono::steady_clock::now() < deadline) {
      if (const std::scoped_lock lock(mutex_); newest_ >= window)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

private:
  std::mutex mutex_;
  std::uint64_t newest_ = 0;
};

worker_actor::behavior_type placed_worker(worker_actor::pointer, std::shared_ptr<std::promise<std::uint64_t>> placed) {
  return {
      [](atom::decide, const message<messages::decision>&) {},
      [placed](atom::place, const message<messages::placement>& place, const store_actor&) {
        placed->set_value(place->generation);
      },
      [](atom::closed, const message<messages::generation_notice>&) {},
      [](atom::stop) {},
  };
}

class TwoHosts : public ::testing::Test {
protected:
  TwoHosts() {
    file_.name = "two";
    file_.hosts.push_back({.name = "north", .port = 1, .roles = {cluster::role::arbitrator}});
    file_.hosts.push_back({.name = "ada", .port = 2});
    aggregator_ = north_.spawn(
        aggregator,
        aggregator_options{.file = std::make_shared<const cluster::cluster_file>(file_),
                           .timeouts = timeouts_,
                           .role = root_options{.run_ledger = ledger_, .events = std::make_shared<host_events>()}});
    judge_ = north_.spawn(arbitrator,
                          arbitrator_options{.file = std::make_shared<const cluster::cluster_file>(file_),
                                             .timeouts = timeouts_,
                                             .parameters = {},
                                             .run_ledger = ledger_},
                          aggregator_, learner_actor{});
    door_ = north_.spawn(gateway, gateway_options{"north", true}, std::shared_ptr<host_events>());
    caf::anon_send(door_, atom::serve_v, caf::actor_cast<greeter_actor>(aggregator_));
  }

  ~TwoHosts() override {
    for (const auto& one : {caf::actor_cast<caf::actor>(aggregator_), caf::actor_cast<caf::actor>(judge_),
                            caf::actor_cast<caf::actor>(door_), caf::actor_cast<caf::actor>(measuring_),
                            caf::actor_cast<caf::actor>(worker_)})
      if (one)
        caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  /// Joins as a worker of the other host; the generation that it is placed in.
  std::uint64_t join() {
    const auto port = north_.middleman().publish(caf::actor_cast<gateway_actor>(door_), 0, "127.0.0.1");
    EXPECT_TRUE(port);
    const auto reached = ada_.middleman().remote_actor<gateway_actor>("127.0.0.1", *port);
    EXPECT_TRUE(reached);
    const auto placed = std::make_shared<std::promise<std::uint64_t>>();
    const messages::hello said{.cluster = file_.name,
                               .cluster_digest = file_.digest(),
                               .host = "ada",
                               .incarnation = 1,
                               .heartbeat_interval_ms = timeouts_.heartbeat_interval_ms};
    measuring_ = ada_.spawn(telemetry, telemetry_options{});
    worker_ = ada_.spawn(placed_worker, placed);
    caf::scoped_actor self(ada_);
    self->request(*reached, patience, atom::hello_v, pack(said), worker_)
        .receive(
            [&](const message<messages::welcome>& answer, const aggregator_actor& upstream) {
              EXPECT_TRUE(answer);
              upstream_ = upstream;
            },
            [](const caf::error& error) { ADD_FAILURE() << caf::to_string(error); });
    auto place = placed->get_future();
    EXPECT_EQ(place.wait_for(patience), std::future_status::ready);
    return place.get();
  }

  /// As the training thread and the worker's actor do.
  void report(std::uint64_t generation, std::uint64_t window) {
    const messages::window_report said{
        .host = "ada", .rank = 0, .generation = generation, .window = window, .batch = 64};
    caf::scoped_actor self(ada_);
    self->request(measuring_, patience, atom::report_v, pack_checked(said))
        .receive(
            [&](const message<messages::window_report>& completed) {
              self->send(upstream_, atom::report_v, pack(*completed));
            },
            [](const caf::error& error) { ADD_FAILURE() << caf::to_string(error); });
  }

  cluster::cluster_file file_;
  cluster::timeouts timeouts_ = cluster::derive_timeouts(600'000); ///< the worker gives no signs of life
  std::shared_ptr<newest_window> ledger_ = std::make_shared<newest_window>();
  system_config north_config_{timeouts_};
  system_config ada_config_{timeouts_};
  caf::actor_system north_{north_config_};
  caf::actor_system ada_{ada_config_};
  aggregator_local aggregator_;
  arbitrator_actor judge_;
  gateway_local door_;
  telemetry_actor measuring_;
  worker_actor worker_;
  aggregator_actor upstream_;
};

TEST_F(TwoHosts, EncodeAndDecodeAReportOnceBetweenTrainingThreadAndLedger) {
  const auto generation = join();
  // A window that closes before the arbitrator has begun to decide goes nowhere.
  std::uint64_t window = 0;
  do
    report(generation, ++window);
  while (!ledger_->wait_for(window, std::chrono::seconds(1)) && window < 60);
  const auto reports = messages::counts_of<messages::window_report>();
  const auto windows = messages::counts_of<messages::shard_report>();
  constexpr int count = 5;
  for (int more = 0; more < count; ++more) {
    report(generation, ++window);
    ASSERT_TRUE(ledger_->wait_for(window, patience));
  }
  EXPECT_EQ(messages::counts_of<messages::window_report>().encoded, reports.encoded + count);
  EXPECT_EQ(messages::counts_of<messages::window_report>().decoded, reports.decoded + count);
  EXPECT_EQ(messages::counts_of<messages::shard_report>().encoded, windows.encoded);
  EXPECT_EQ(messages::counts_of<messages::shard_report>().decoded, windows.decoded);
}

} // namespace
} // namespace dynamix::actors::testing
