#include "swarm/part.hpp"

#include "simulator/world.hpp"
#include "swarm/clock.hpp"
#include "swarm/part_events.hpp"

namespace dynamix::swarm {
namespace {

constexpr std::int64_t progress_ns = 100 * ns_per_ms;    ///< between two words on joining
constexpr std::int64_t farewell_ns = 30'000 * ns_per_ms; ///< patience with them
constexpr std::chrono::milliseconds look_interval{200};

class part {
public:
  part(const simulator::scenario& what, const std::vector<std::uint32_t>& ranks, channel& conductor,
       const make_transport& make)
      : ranks_(ranks), conductor_(conductor), events_(ranks, what.file.batch.initial), world_(what, what.file.seed),
        transport_(make(events_)) {}

  /// False: it ends.
  bool obey(const part_message& message) {
    switch (message.what) {
    case verb::join:
      transport_->join();
      return join();
    case verb::prepare:
      return prepare(message);
    case verb::go:
      return go(message);
    case verb::finish:
      finish();
      return false;
    default:
      return fail("the conductor sent an unknown request");
    }
  }

private:
  bool tell(part_message message) {
    message.traffic = transport_->traffic();
    return conductor_.send(message);
  }

  bool fail(const std::string& reason) {
    tell({.what = verb::failed, .text = reason});
    return false;
  }

  /// Until all workers have a place; the conductor loses patience first.
  bool join() {
    while (true) {
      const auto placed = events_.wait_for_places(monotonic_ns() + progress_ns);
      if (const auto failure = events_.failure(); !failure.empty())
        return fail(failure);
      const bool all = placed == ranks_.size();
      if (!tell({.what = all ? verb::joined : verb::joining, .placed = placed}))
        return false;
      if (all)
        return true;
    }
  }

  bool prepare(const part_message& message) {
    auto shard = world_.run_window(message.batches, {}, message.settling);
    if (shard.reports.size() != message.batches.size())
      return fail(world_.failure());
    std::vector<messages::window_report> own;
    for (const auto rank : ranks_)
      own.push_back(std::move(shard.reports[rank]));
    events_.open_window(message.window);
    transport_->prepare(std::move(own));
    return tell({.what = verb::prepared, .window = message.window});
  }

  bool go(const part_message& message) {
    sleep_until_ns(message.at_ns);
    transport_->send();
    auto outcome = events_.wait_for_window(message.deadline_ns);
    if (const auto failure = events_.failure(); !failure.empty())
      return fail(failure);
    return tell({.what = verb::done, .window = message.window, .workers = std::move(outcome)});
  }

  void finish() {
    transport_->finish();
    const auto left = events_.wait_for_farewells(monotonic_ns() + farewell_ns);
    tell({.what = verb::finished, .placed = left});
  }

  const std::vector<std::uint32_t> ranks_;
  channel& conductor_;
  part_events events_;
  simulator::world world_;
  std::unique_ptr<transport> transport_;
};

} // namespace

int run_part(const simulator::scenario& what, const std::vector<std::uint32_t>& ranks, channel& conductor,
             const make_transport& make) {
  part running(what, ranks, conductor, make);
  if (!conductor.send({.what = verb::up}))
    return 1;
  while (conductor.open())
    if (const auto message = conductor.receive(look_interval); message && !running.obey(*message))
      return message->what == verb::finish ? 0 : 1;
  return 1;
}

} // namespace dynamix::swarm
