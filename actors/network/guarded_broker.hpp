#pragma once

#include "actors/network/message_guard.hpp"

#include <caf/io/basp_broker.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace dynamix::actors {

/// Connections that CAF has been given and has not read from yet.
class new_links {
public:
  void put(caf::io::connection_handle connection, link_peer peer);
  std::optional<link_peer> take(caf::io::connection_handle connection);

private:
  std::mutex mutex_;
  std::map<caf::io::connection_handle, link_peer> waiting_;
};

/// CAF's broker behind a guard. CAF makes room for a payload as soon as a header claims one; so a header with a large
/// one is held back until the payload is here, in a buffer that grows as its bytes come.
class guarded_broker final : public caf::io::basp_broker {
public:
  explicit guarded_broker(caf::actor_config& config) : basp_broker(config) {}
  /// Before it is given a connection. Without `rules` it passes on whatever comes.
  void use(std::shared_ptr<const authority> rules, std::shared_ptr<new_links> links,
           std::shared_ptr<refused_messages> refused);
  caf::behavior make_behavior() override;
  // CAF would ask every process that it meets what can be spawned there: nothing.
  void learned_new_node_directly(const caf::node_id& node, bool was_indirectly_before) override;
  void learned_new_node_indirectly(const caf::node_id& node) override;

private:
  /// A header, and of its payload what has come.
  struct held_frame {
    std::vector<char> header;
    std::size_t claimed = 0;
    std::vector<char> payload;
  };

  void take(caf::io::new_data_msg& frame);
  void take_part(caf::io::connection_handle connection, const std::vector<char>& part);
  void await_part(caf::io::connection_handle connection);
  void pass_on(caf::io::connection_handle connection, std::vector<char> frame);
  void cut(caf::io::connection_handle connection);
  bool awaits_payload(caf::io::connection_handle connection) const;
  /// False where it is cut.
  bool judge(caf::io::connection_handle connection, const std::vector<char>& frame);

  caf::behavior behind_;               ///< CAF's own
  std::optional<message_guard> guard_; ///< none: whatever comes is passed on
  std::shared_ptr<new_links> links_;
  std::map<caf::io::connection_handle, held_frame> held_;
};

} // namespace dynamix::actors
