#pragma once

/// What a host that trains runs: its workers, each with a telemetry, and one connector for all.

#include "actors/host/host.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host/tree_services.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "exchange/peer_links.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dynamix::actors {

class worker_services {
public:
  /// Starts a supervisor, which ends with the host.
  using supervise_function = std::function<void(supervision_options, std::vector<child_specification>)>;

  /// `links`: to the other workers; null: in the clear.
  worker_services(caf::actor_system& system, const host_options& options, std::shared_ptr<host_events> events,
                  std::shared_ptr<exchange::peer_links> links, const tree_services& tree, supervise_function supervise);

  /// An error message if something that must be there is not.
  std::string start();
  void serve_gateway(const gateway_local& gateway);
  /// They are to end training at their next agreement.
  void stop();
  /// They part from the others, which go on.
  void leave();
  void shut_down();

private:
  /// One of the host's workers.
  struct served_worker {
    const cluster::host* host = nullptr;       ///< the host, or one of its slots
    std::shared_ptr<std::atomic<int>> process; ///< that trains for it; null: this one
    worker_local actor;
  };

  std::string start_worker(served_worker& worker, std::size_t slot, const std::vector<std::uint32_t>& cores);
  std::vector<std::vector<std::uint32_t>> cores_of_workers() const;
  caf::strong_actor_ptr start_telemetry(const served_worker& worker);
  caf::strong_actor_ptr start_connector();

  caf::actor_system& system_;
  const host_options& options_;
  const cluster::host& host_;
  std::shared_ptr<host_events> events_;
  std::shared_ptr<exchange::peer_links> links_;
  const tree_services& tree_;
  supervise_function supervise_;

  std::mutex mutex_; ///< supervisors restart children on threads of their own
  std::vector<served_worker> workers_;
  connector_actor connector_;
  gateway_local gateway_;
};

} // namespace dynamix::actors
