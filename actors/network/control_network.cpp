#include "actors/network/control_network.hpp"

#include "actors/handlers.hpp"
#include "actors/network/guarded_broker.hpp"

#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include <chrono>
#include <list>
#include <mutex>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace dynamix::actors {

/// Links that a caller has opened and CAF has not taken yet, by the host and port that it asks for.
class control_network::called_links {
public:
  std::uint64_t put(const std::string& host, std::uint16_t port, int plain) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back({.token = ++tokens_, .host = host, .port = port, .plain = plain});
    return tokens_;
  }
  /// -1: none.
  int take(const std::string& host, std::uint16_t port) {
    const std::scoped_lock lock(mutex_);
    const auto found =
        std::ranges::find_if(waiting_, [&](const auto& each) { return each.host == host && each.port == port; });
    return found == waiting_.end() ? -1 : remove(found);
  }
  /// CAF may have had a connection to that host already, and needs no other.
  void withdraw(std::uint64_t token) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = std::ranges::find(waiting_, token, &link::token); found != waiting_.end())
      ::close(remove(found));
  }

private:
  struct link {
    std::uint64_t token = 0;
    std::string host;
    std::uint16_t port = 0;
    int plain = -1;
  };

  int remove(std::list<link>::iterator at) {
    const int plain = at->plain;
    waiting_.erase(at);
    return plain;
  }

  std::mutex mutex_;
  std::list<link> waiting_;
  std::uint64_t tokens_ = 0;
};

namespace {

namespace network = caf::io::network;

/// Takes descriptors from the pump's queue where CAF's own takes connections from a listener.
struct queue_policy {
  links::taken_link* last;

  bool try_accept(network::native_socket& taken, network::native_socket queue) const {
    *last = links::take_link(queue);
    taken = last->plain;
    return taken >= 0;
  }
};

/// As CAF's own for TCP, but for where its connections come from.
class link_doorman final : public caf::io::doorman {
public:
  link_doorman(network::default_multiplexer& multiplexer, int queue, std::uint16_t port,
               std::shared_ptr<new_links> links)
      : doorman(network::accept_hdl_from_socket(queue)), acceptor_(multiplexer, queue, queue_policy{&last_}),
        port_(port), links_(std::move(links)) {}

  using caf::io::doorman::new_connection;
  bool new_connection() override {
    if (detached()) {
      ::close(acceptor_.accepted_socket());
      return false;
    }
    auto& multiplexer = acceptor_.backend();
    auto link = multiplexer.new_scribe(acceptor_.accepted_socket());
    const auto handle = link->hdl();
    links_->put(handle, {.host = last_.host, .called = false, .address = last_.address});
    parent()->add_scribe(std::move(link));
    return doorman::new_connection(&multiplexer, handle);
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }
  void launch() override { acceptor_.start(this); }
  std::string addr() const override { return "links"; }
  std::uint16_t port() const override { return port_; }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  links::taken_link last_;
  network::acceptor_impl<queue_policy> acceptor_;
  const std::uint16_t port_;
  const std::shared_ptr<new_links> links_;
};

template <class CalledLinks>
class link_middleman final : public caf::io::middleman_actor_impl {
public:
  link_middleman(caf::actor_config& config, caf::actor broker, std::shared_ptr<links::pump> pump,
                 std::shared_ptr<CalledLinks> called, std::shared_ptr<new_links> links)
      : middleman_actor_impl(config, std::move(broker)), pump_(std::move(pump)), called_(std::move(called)),
        links_(std::move(links)) {}

protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    const int plain = called_->take(host, port);
    if (plain < 0)
      return caf::sec::cannot_connect_to_node;
    auto link = multiplexer().new_scribe(plain);
    links_->put(link->hdl(), {.host = host, .called = true, .address = {}});
    return link;
  }
  caf::expected<caf::io::doorman_ptr> open(std::uint16_t port, const char* /*address*/, bool /*reuse*/) override {
    const int queue = pump_->take_links();
    if (queue < 0)
      return caf::make_error(caf::sec::cannot_open_port, "there is no descriptor left");
    return caf::make_counted<link_doorman>(dynamic_cast<network::default_multiplexer&>(multiplexer()), queue, port,
                                           links_);
  }

private:
  network::multiplexer& multiplexer() { return system().middleman().backend(); }

  std::shared_ptr<links::pump> pump_;
  std::shared_ptr<CalledLinks> called_;
  std::shared_ptr<new_links> links_;
};

} // namespace

control_network::control_network(caf::actor_system& system, std::shared_ptr<links::pump> pump,
                                 std::shared_ptr<const authority> rules)
    : system_(system), pump_(std::move(pump)), called_(std::make_shared<called_links>()),
      refused_(std::make_shared<refused_messages>()) {
  // CAF ends it with its own broker.
  const auto broker = system.middleman().named_broker<guarded_broker>(caf::atom("LinkBASP"));
  auto links = std::make_shared<new_links>();
  static_cast<guarded_broker*>(caf::actor_cast<caf::abstract_actor*>(broker))->use(std::move(rules), links, refused_);
  middleman_ = system.spawn<link_middleman<called_links>, caf::detached + caf::hidden>(broker, pump_, called_, links);
}

control_network::~control_network() = default;

std::string control_network::publish(const gateway_actor& gateway, std::uint16_t port) {
  auto ask = caf::make_function_view(middleman_);
  const auto published = ask(caf::publish_atom::value, port, caf::actor_cast<caf::strong_actor_ptr>(gateway),
                             system_.message_types(gateway), std::string(), true);
  return published ? "" : to_text(published.error());
}

void control_network::unpublish(const gateway_actor& gateway, std::uint16_t port) {
  auto ask = caf::make_function_view(middleman_);
  ask(caf::unpublish_atom::value, gateway.address(), port);
}

gateway_actor control_network::reach(const connector_target& target, std::uint32_t timeout_ms, std::string& problem,
                                     links::connect_failure* kind) {
  const int plain =
      pump_->connect(target.host, target.address, target.port, std::chrono::milliseconds(timeout_ms), problem, kind);
  if (plain < 0)
    return {};
  const auto token = called_->put(target.host, target.port, plain);
  auto ask = caf::make_function_view(middleman_);
  auto reached = ask(caf::connect_atom::value, target.host, target.port);
  called_->withdraw(token);
  if (!reached) {
    problem = to_text(reached.error());
    return {};
  }
  const auto& [node, found, interface] = *reached;
  if (!found || !system_.assignable<gateway_actor>(interface)) {
    problem = "no gateway is published there";
    return {};
  }
  return caf::actor_cast<gateway_actor>(found);
}

std::uint64_t control_network::refused() const {
  return refused_->count();
}

void control_network::shut_down() {
  caf::scoped_actor self(system_, true);
  self->send_exit(middleman_, caf::exit_reason::kill);
  self->wait_for(middleman_);
  middleman_ = nullptr;
}

} // namespace dynamix::actors
