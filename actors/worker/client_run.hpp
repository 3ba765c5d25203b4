#pragma once

/// Training that another process does: the user's, which joins through the SDK.

#include "actors/client/client_server.hpp"
#include "actors/worker/worker_training.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace dynamix::actors {

/// Serves the host's slot (session/client_slot.hpp) and tells the worker what becomes of it. A generation is left as
/// soon as that is asked for: the client's process group is its user's, and goes on.
class client_run final : public worker_training {
public:
  explicit client_run(const training_options& options) : worker_training(options) {}
  ~client_run() override;

  void open(caf::actor_system& system, worker_local worker) override;
  void join(std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions) override;
  void place(const messages::placement& place, store_actor store) override;
  void decided(const messages::decision& decision) override;
  void interrupt(const std::string& reason) override;
  void regroup() override;
  void request_stop() override;
  void finish(const std::string& reason) override;

  std::uint32_t group() const override { return locked(group_); }
  std::uint64_t steps() const override { return locked(steps_); }

private:
  void serve(std::uint32_t rank);
  void act(const std::function<void(session::client_slot&)>& action);
  void take(session::client_effect& what);
  void on(const session::client_effects::follow& what);
  void on(const session::client_effects::ready& what);
  void on(const session::client_effects::lost& what);
  void on(const session::client_effects::left& what);
  void on(const session::client_effects::progress& what);
  void on(const session::client_effects::report& what);
  void on(const session::client_effects::evaluated& what);
  void on(const session::client_effects::finished& what);
  void note_applied(const messages::window_report& report);

  // Guarded by the mutex, which is taken within the server's, never the other way round.
  std::shared_ptr<session::decision_slot> decisions_;
  std::deque<messages::decision> received_; ///< the newest that the client was sent, in order
  messages::decision_key in_force_;         ///< as the newest report says
  std::uint32_t group_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t first_steps_ = 0; ///< completed when the generation began
  bool began_ = false;            ///< a step of the generation is completed
  bool stop_asked_ = false;
  std::string last_loss_; ///< why the newest client was lost, while none has come since

  std::unique_ptr<client_server> server_; ///< last, so that its thread ends first
};

} // namespace dynamix::actors
