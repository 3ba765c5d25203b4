#include "replication/replica_core.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/core.h>
#include <utility>

namespace dynamix::replication {
namespace {

std::string validate(const replica_options& options) {
  const auto count = options.voters.size();
  if (count != 1 && count != 3 && count != 5)
    return fmt::format("{} voters; 1, 3 or 5 are possible", count);
  if (!options.links)
    return "replicas speak with each other over links only, which need keys";
  if (options.directory.empty() || options.snapshot_entries == 0 || options.detect_ms == 0)
    return "directory, snapshot_entries and detect_ms must be given";
  for (const auto& one : options.voters) {
    std::string host;
    std::string port;
    if (one.id == 0 || !split_address(one.address, host, port))
      return fmt::format("voter {} at \"{}\" is none: an id above 0 and host:port", one.id, one.address);
    if (std::count_if(options.voters.begin(), options.voters.end(),
                      [&](const auto& other) { return other.id == one.id || other.address == one.address; }) > 1)
      return fmt::format("voter {} shares its id or its address with another", one.id);
  }
  return std::any_of(options.voters.begin(), options.voters.end(),
                     [&](const auto& one) { return one.id == options.id; })
             ? ""
             : fmt::format("voter {} is not among the voters", options.id);
}

template <class Handle>
void close_handle(Handle& handle) {
  ::uv_close(reinterpret_cast<uv_handle_t*>(&handle), nullptr);
}

} // namespace

std::string replica_core::start(replica_options options) {
  if (thread_.joinable())
    return "the replica was started before";
  if (auto fault = validate(options); !fault.empty())
    return fault;
  options_ = std::move(options);
  time_outs_ = time_outs_of(options_.detect_ms);
  std::signal(SIGPIPE, SIG_IGN); // a peer that dies while it is written to would end this process
  if (::uv_loop_init(&loop_) != 0 || ::uv_async_init(&loop_, &wake_, [](uv_async_t* wake) {
                                       static_cast<replica_core*>(wake->data)->serve_requests();
                                     }) != 0)
    return "cannot make an event loop";
  wake_.data = this;
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return first_result_.has_value(); });
  auto result = *first_result_;
  lock.unlock();
  if (!result.empty())
    thread_.join();
  return result;
}

void replica_core::run() {
  ::uv_timer_init(&loop_, &timer_);
  ::uv_prepare_init(&loop_, &prepare_);
  ::uv_check_init(&loop_, &check_);
  timer_.data = prepare_.data = check_.data = this;
  // libraft acts in timers and on sockets: before and after each wait there may be news.
  ::uv_prepare_start(&prepare_, [](uv_prepare_t* at) { static_cast<replica_core*>(at->data)->after_events(); });
  ::uv_check_start(&check_, [](uv_check_t* at) { static_cast<replica_core*>(at->data)->after_events(); });
  try_open();
  ::uv_run(&loop_, UV_RUN_DEFAULT);
  ::uv_loop_close(&loop_);
  refuse_all("the replica has stopped");
  observe({});
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void replica_core::first_result(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (first_result_)
    return;
  first_result_ = text;
  accepts_ = text.empty();
  changed_.notify_all();
}

void replica_core::after_events() {
  if (!running_)
    return;
  auto& instance = *instance_;
  if (!instance.io.fault().empty() || ::raft_state(&instance.consensus) == RAFT_UNAVAILABLE) {
    const auto& fault = instance.io.fault();
    disk_failed_ = true;
    failure_ = failure{fault.empty() ? std::string("libraft gave up: ") + ::raft_errmsg(&instance.consensus) : fault};
    return begin_close();
  }
  if (auto error = check_disk(); !error.empty()) {
    disk_failed_ = true;
    failure_ = failure{std::move(error)};
    return begin_close();
  }
  if (instance.trial) {
    instance.trial->applied(::raft_last_applied(&instance.consensus));
    if (instance.trial->now() == probation::phase::over) {
      const auto term = std::max<std::uint64_t>(instance.trial->promised_term(), instance.consensus.current_term);
      if (auto error = promise_term(options_.directory, term); !error.empty()) {
        disk_failed_ = true;
        failure_ = failure{std::move(error)};
      }
      return begin_close();
    }
  }
  const auto seen = look();
  if (seen.now == role::leader && std::exchange(led_term_, seen.raft_term) != seen.raft_term)
    serve_read({.read = [](const read_result&) {}}); // an entry of its term, which commits what earlier leaders left
  observe(seen);
}

/// What libraft 0.22 does not say: files that cannot be made it tries again for ever, and a snapshot that cannot be
/// read is passed over.
std::string replica_core::check_disk() {
  constexpr std::uint64_t stalled_ms_max = 30'000;
  if (instance_->machine.broken())
    return "cannot read a snapshot of the leader's";
  const auto stalled_ms = instance_->io.stalled_ms();
  return stalled_ms < stalled_ms_max
             ? ""
             : fmt::format("the disk of {} has written nothing for {} ms", options_.directory, stalled_ms);
}

void replica_core::observe(const observation& seen) {
  {
    const std::scoped_lock lock(mutex_);
    if (seen == seen_)
      return;
    seen_ = seen;
  }
  if (options_.observe)
    options_.observe(seen);
}

/// The same again and again is said once.
void replica_core::report(const std::string& text) {
  if (text == last_report_ || !options_.report)
    return;
  last_report_ = text;
  options_.report(text);
}

void replica_core::schedule(std::uint32_t delay_ms) {
  ::uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        auto& self = *static_cast<replica_core*>(timer->data);
        if (self.closing_)
          self.finish_close();
        else
          self.try_open();
      },
      delay_ms, 0);
}

void replica_core::begin_close() {
  if (closing_)
    return;
  running_ = false;
  closing_ = true;
  ::uv_timer_stop(&timer_);
  observe({.now = role::waiting});
  // The instance is in use until this returns, so it is dropped from a timer.
  ::raft_close(&instance_->consensus, [](raft* closed) { static_cast<replica_core*>(closed->data)->schedule(0); });
}

void replica_core::finish_close() {
  closing_ = false;
  drop_instance();
  const auto why = std::exchange(failure_, std::nullopt);
  if (ending_)
    return end_handles();
  if (why)
    return open_failed(*why);
  try_open();
}

void replica_core::end_handles() {
  if (std::exchange(handles_ended_, true))
    return;
  {
    const std::scoped_lock lock(mutex_);
    accepts_ = false; // from here on nobody wakes it
  }
  ::uv_timer_stop(&timer_);
  close_handle(timer_);
  close_handle(prepare_);
  close_handle(check_);
  close_handle(wake_);
}

observation replica_core::now() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

bool replica_core::stop(std::uint32_t bound_ms) {
  if (!thread_.joinable())
    return true;
  std::unique_lock lock(mutex_);
  stop_wanted_ = true;
  if (accepts_)
    ::uv_async_send(&wake_);
  const bool ended = changed_.wait_for(lock, std::chrono::milliseconds(bound_ms), [&] { return ended_; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach(); // it holds this object until it ends
  return ended;
}

} // namespace dynamix::replication
