#pragma once

/// What a host that decides runs: ppo_learner -> aggregator -> arbitrator under one supervisor, and the run's ledger;
/// of replicas with the voter, and only while it leads.

#include "actors/arbitrator/leadership.hpp"
#include "actors/host/command_socket.hpp"
#include "actors/host/host.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host/tree_services.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/control_network.hpp"
#include "actors/network/worker_names.hpp"
#include "ledger/file.hpp"
#include "policy/parameter_archive.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// Parameters of the policy that the options or the cluster file name; empty: it has none. Returns what is wrong with
/// `source`, the file.
std::string read_policy(const host_options& options, std::string& source, std::vector<std::uint8_t>& parameters);

class arbitration_services {
public:
  using supervise_function = std::function<caf::actor(supervision_options, std::vector<child_specification>)>;

  struct surroundings {
    std::shared_ptr<host_events> events;
    std::shared_ptr<worker_names> names;
    std::shared_ptr<control_network> network; ///< null: in the clear
    std::shared_ptr<links::pump> raft_links;  ///< to the other voters; null: there are none
  };

  arbitration_services(caf::actor_system& system, const host_options& options, surroundings around,
                       const tree_services& tree, supervise_function supervise);

  /// Opens the ledger and reads the policy. An error message if something that must be there is not.
  std::string prepare();
  const std::vector<std::uint8_t>& parameters() const { return saved_policy_; } ///< that were read

  /// Begins to decide, but for a replica, which does when its voter leads.
  void start();
  /// Starts the voter of a replica. An error message, as above.
  std::string join_replicas();
  bool is_replicated() const { return !options_.file->arbitrator.replicas.empty(); }

  void serve_gateway(const gateway_local& gateway);
  /// All workers are to end training at their next agreement.
  void stop();
  /// Where this host's replica leads: tells the other replicas that the run is over.
  void tell_end(const part_outcome& how);
  void tell(ledger::event_kind event, const std::string& host, const std::string& text);

  /// Null: it does not decide now.
  caf::actor supervisor();
  /// Ends the voter. The supervisor that is to be ended, or null.
  caf::actor end_voter();
  /// Once that one has ended.
  void shut_down();

private:
  void lead(const leader_start& start);
  void follow(const std::string& leader);
  void leave_arbitration();
  void start_arbitration();
  std::string answer(const std::string& line);
  caf::strong_actor_ptr start_learner();
  caf::strong_actor_ptr start_aggregator();
  caf::strong_actor_ptr start_arbitrator();
  void serve_aggregator();

  caf::actor_system& system_;
  const host_options& options_;
  const cluster::host& host_;
  const cluster::timeouts timeouts_;
  surroundings around_;
  const tree_services& tree_;
  supervise_function supervise_;
  std::shared_ptr<ledger::writer> ledger_;
  double ledger_origin_seconds_ = 0;
  std::shared_ptr<policy::parameter_archive> archive_;
  bool learns_ = false;
  leadership leadership_;
  bool told_following_ = false;              ///< in the ledger
  std::unique_ptr<command_socket> commands_; ///< null: it cannot listen

  // What follows is guarded: supervisors restart children, and the voter makes leaders, on threads of their own.
  std::mutex mutex_;
  caf::actor supervisor_; ///< of what only a leader runs
  leader_start led_from_;
  std::vector<std::uint8_t> saved_policy_;
  gateway_local gateway_;
  learner_actor learner_;
  aggregator_local aggregator_;
  std::optional<std::string> leader_; ///< another host of the replicas; empty: nobody is known to lead
};

} // namespace dynamix::actors
