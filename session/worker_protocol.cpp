#include "session/worker_protocol.hpp"

#include "messages/leave.hpp"
#include "storage/json_text.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace dynamix::session {

namespace {

using effects::log_level;
using messages::welcome_verdict;

constexpr double first_greeting_delay_seconds = 0.1;
constexpr double longest_greeting_delay_seconds = 0.5;
constexpr double place_delay_seconds = 2; ///< until one who waits for a place asks again
constexpr std::uint32_t reports_under_way_max = 64;

} // namespace

worker_options options_of(const cluster::cluster_file& file, std::uint64_t digest, const std::string& host,
                          std::uint64_t incarnation) {
  const auto timeouts = cluster::derive_timeouts(file.detect_ms);
  const auto* listed = file.find(host);
  const auto limit = listed == nullptr ? 0 : listed->batch_highest;
  return {.timeouts = timeouts,
          .lowest_batch = file.batch.lowest,
          .highest_batch = limit == 0 ? file.batch.highest : limit,
          .guest = listed == nullptr,
          .balances = file.balances(),
          .serves = listed != nullptr && listed->only_serves(),
          .workers = file.members().size() == file.workers().size() ? messages::max_workers
                                                                    : static_cast<std::uint32_t>(file.workers().size()),
          .identity = {.cluster = file.name,
                       .cluster_digest = digest,
                       .host = host,
                       .incarnation = incarnation,
                       .heartbeat_interval_ms = timeouts.heartbeat_interval_ms}};
}

worker_protocol::worker_protocol(worker_options options)
    : options_(std::move(options)), ready_(!options_.external_trainer),
      newest_(std::make_shared<const messages::placement>()),
      watch_(options_.timeouts), account_{.reason = "training never began", .decisions = {}} {}

std::vector<effect> worker_protocol::handle(const moment& at, event what) {
  at_ = at;
  std::visit([this](auto& one) { on(one); }, what);
  return std::exchange(effects_, {});
}

// Finding an arbitrator.

void worker_protocol::on(const events::connected&) {
  gateway_ = true;
  greeting_under_way_ = false; // nobody answers what was said on another connection
  greet();
}

void worker_protocol::on(const events::disconnected&) {
  gateway_ = false;
  orphan("its host is gone");
}

void worker_protocol::on(const events::aggregator_down&) {
  if (!aggregator_)
    return;
  orphan("its aggregator is gone");
  greet();
}

void worker_protocol::on(const events::greeting_due&) {
  greet();
}

void worker_protocol::greet() {
  // An aggregator that knows this worker would answer each hello of one that takes no place any more by ending its
  // generation.
  const bool wanted = (phase_ < phase::training && !(finishing_ && aggregator_)) ||
                      (phase_ == phase::training && (!aggregator_ || known_group_ != group_));
  const bool seeks = farewell_step_ == farewell_step::seeking;
  if (!gateway_ || !(seeks || (wanted && (ready_ || reserves()))) || greeting_under_way_)
    return;
  if (phase_ == phase::idle)
    phase_ = phase::greeting;
  say_hello();
}

/// The process that is to train for a guest is told its rank before it begins.
bool worker_protocol::reserves() const {
  return options_.guest && !ready_ && !joined();
}

void worker_protocol::greet_later() {
  greeting_delay_seconds_ =
      std::clamp(greeting_delay_seconds_ * 2, first_greeting_delay_seconds, longest_greeting_delay_seconds);
  emit(effects::greet_later{greeting_delay_seconds_});
}

messages::hello worker_protocol::hello() const {
  auto said = options_.identity;
  said.group = group_;
  said.reserves = reserves();
  if (!joined())
    return said;
  said.generation = newest_->generation;
  said.last_decision = decisions_->newest();
  // One that has only its farewell to say is still in the generation whose end it tells.
  said.training = phase_ == phase::training || farewell_step_ == farewell_step::seeking;
  if (said.training)
    said.members = newest_->members;
  said.steps = said.attempted_steps = at_.steps;
  if (!said.training && attempted_steps_) {
    said.attempted_steps = std::max(said.steps, *attempted_steps_);
    said.left_because = account_.reason;
  }
  return said;
}

void worker_protocol::say_hello() {
  greeting_under_way_ = true;
  auto said = hello();
  said_generation_ = said.generation;
  said_training_ = said.training;
  said_group_ = said.group;
  emit(effects::say_hello{++greetings_, std::move(said), options_.timeouts.request_timeout_ms});
}

void worker_protocol::on(const events::hello_answered& what) {
  if (what.number != greetings_ || phase_ == phase::ended)
    return;
  greeting_under_way_ = false;
  if (!what.welcome)
    return greet_later();
  answered_seconds_ = at_.seconds;
  if (what.welcome->verdict != welcome_verdict::accepted)
    return refused(*what.welcome);
  if (options_.guest && joined() && what.welcome->rank != rank_)
    return end(false, fmt::format("its rank {} was given to another host while it was away", rank_));
  accepted(*what.welcome);
  known_generation_ = said_generation_;
  known_training_ = said_training_;
  known_group_ = said_group_;
  if (!ready_)
    return tell_absence();
  // Since that hello it may have left the generation, or be in another, or in another group, or hold decisions of a
  // newer term.
  const bool settled =
      known(phase_ == phase::training) && known_group_ == group_ && decisions_->newest().term <= what.welcome->term;
  if (gateway_ && phase_ <= phase::training && !settled)
    say_hello();
}

bool worker_protocol::known(bool training) const {
  return joined() && known_generation_ == newest_->generation && known_training_ == training;
}

void worker_protocol::accepted(const messages::welcome& welcome) {
  greeting_delay_seconds_ = 0;
  duplicate_since_seconds_.reset();
  const bool was_orphaned = !std::exchange(aggregator_, true);
  emit(effects::follow_aggregator{});
  const bool was_absent = !absent_because_.empty();
  if (ready_)
    absent_because_.clear();
  if (phase_ == phase::greeting) {
    log(log_level::info,
        fmt::format("joined rank={} generation={} protocol={} waiting for a place", welcome.rank, welcome.generation,
                    welcome.protocol == 0 ? messages::oldest_protocol : welcome.protocol));
    phase_ = phase::waiting;
    rank_ = welcome.rank;
    decisions_ = std::make_shared<decision_slot>(rank_, options_.lowest_batch, options_.highest_batch);
    emit(effects::join{rank_, decisions_});
  } else if (was_orphaned && !was_absent) {
    log(log_level::info, fmt::format("arbitrator_is_back term={} steps={}", welcome.term, at_.steps));
  }
  // The aggregator before may have ended with it.
  if (was_orphaned && !unheard_ && undecided_ && phase_ == phase::training &&
      undecided_->generation == newest_->generation)
    unheard_ = std::move(undecided_);
  send_waiting_report();
  if (farewell_step_ == farewell_step::seeking)
    settle();
}

/// Not accepted: tries again where that may help, ends where it cannot, and trains on where it trains.
void worker_protocol::refused(const messages::welcome& welcome) {
  if (welcome.verdict == welcome_verdict::not_leader)
    return emit(effects::redirect{welcome.leader});
  if (options_.guest && !joined() && welcome.verdict == welcome_verdict::unknown_host) {
    if (std::exchange(waits_because_, welcome.detail) != welcome.detail)
      log(log_level::warning, "waits_for_place reason=" + storage::quoted(welcome.detail));
    return emit(effects::greet_later{place_delay_seconds});
  }
  const bool seeks = farewell_step_ == farewell_step::seeking;
  if (seeks && welcome.verdict == welcome_verdict::generation_closed)
    return farewell_told(); // it has heard the farewell before
  log(log_level::error, "refused detail=" + storage::quoted(welcome.detail));
  if (phase_ >= phase::training) {
    if (welcome.verdict == welcome_verdict::duplicate_host) // for a while
      greet_later();
    else if (seeks)
      tell_farewell();
    return;
  }
  // The process that this one follows on may not have been missed yet.
  const double since_seconds = duplicate_since_seconds_.value_or(at_.seconds);
  duplicate_since_seconds_ = since_seconds;
  const double patience_seconds = 2 * options_.timeouts.connection_timeout_ms / 1000.0;
  if (welcome.verdict == welcome_verdict::duplicate_host && at_.seconds - since_seconds < patience_seconds)
    return greet_later();
  const bool over = welcome.verdict == welcome_verdict::generation_closed;
  end(over, (over ? "" : "the arbitrator refused this host: ") + welcome.detail);
}

void worker_protocol::orphan(const char* why) {
  if (!std::exchange(aggregator_, false))
    return;
  reports_under_way_ = 0; // what was under way is lost
  emit(effects::forget_aggregator{});
  if (phase_ == phase::training)
    log(log_level::warning,
        fmt::format("arbitrator_lost reason={} {}, training goes on", storage::quoted(why),
                    options_.balances ? "workers share by their paces" : "no batch size is decided"));
  else if (phase_ == phase::waiting)
    log(log_level::warning, fmt::format("arbitrator_lost reason={} training waits for it", storage::quoted(why)));
}

void worker_protocol::on(const events::trainer_ready& what) {
  ready_ = true;
  group_ = what.group;
  greet();
}

void worker_protocol::on(const events::trainer_lost& what) {
  if (!std::exchange(ready_, false))
    return;
  absent_because_ = what.reason;
  unheard_.reset(); // nothing follows on it
  undecided_.reset();
  tell_absence();
}

/// An aggregator that has taken this worker in waits for its reports and signs of life.
void worker_protocol::tell_absence() {
  if (!aggregator_ || !joined() || phase_ >= phase::leaving)
    return;
  emit(effects::send_absence{{.rank = rank_, .incarnation = options_.identity.incarnation, .detail = absent_because_}});
  aggregator_ = false;
  reports_under_way_ = 0;
  emit(effects::forget_aggregator{});
}

// Being there.

void worker_protocol::beat() {
  if (!aggregator_ || !joined() || phase_ >= phase::leaving)
    return;
  emit(effects::send_heartbeat{.heartbeat = {.rank = rank_,
                                             .incarnation = options_.identity.incarnation,
                                             .generation = phase_ == phase::training ? newest_->generation : 0,
                                             .steps = at_.steps},
                               .reports = reports_under_way_,
                               .timeout_ms = options_.timeouts.silence_ms});
}

void worker_protocol::on(const events::heartbeat_answered& what) {
  if (!aggregator_)
    return;
  if (!what.heard) {
    orphan("it does not answer");
    // Another replica may lead by now; a single one is tried again.
    return emit(effects::redirect{{}});
  }
  reports_under_way_ -= std::min(what.reports, reports_under_way_);
  send_waiting_report();
}

void worker_protocol::on(const events::training_began&) {
  beat();
}

void worker_protocol::on(const events::tick&) {
  beat();
  if (!joined())
    return look_for_answer();
  look_after_leave();
  if (farewell_step_ == farewell_step::seeking && !may_seek())
    tell_farewell();
  const auto finding = watch_.look(at_.seconds, at_.steps, !aggregator_);
  if (finding.verdict == watch_verdict::fine)
    return;
  const bool stuck = finding.verdict == watch_verdict::stuck;
  log(log_level::error,
      fmt::format("training_{} reason={}", stuck ? "stuck" : "cut_off", storage::quoted(finding.reason)));
  if (stuck)
    emit(effects::fail{finding.reason});
  else
    interrupt(finding.reason);
}

/// Nobody starts a host that joins an open cluster again, and its training may be over: it does not ask for ever.
void worker_protocol::look_for_answer() {
  if (!answered_seconds_)
    answered_seconds_ = at_.seconds;
  const double silence_seconds = at_.seconds - *answered_seconds_;
  if (options_.guest && 1000 * silence_seconds > options_.timeouts.join_timeout_ms)
    end(false, fmt::format("no arbitrator has answered this host for {:.0f} s: training is over, or its arbitrator is "
                           "out of reach",
                           silence_seconds));
}

/// A new arbitrator does not wait for a window that this worker has reported to nobody.
void worker_protocol::send_waiting_report() {
  if (!aggregator_ || !unheard_ || reports_under_way_ >= reports_under_way_max)
    return;
  ++reports_under_way_;
  undecided_ = std::exchange(unheard_, std::nullopt);
  emit(effects::send_report{*undecided_});
}

void worker_protocol::on(events::window_completed& what) {
  telemetry_seconds_ += what.report.telemetry_seconds;
  // What a report says of its sources, of the exchange and of troubles is said once, so the one that takes its place
  // says it.
  if (unheard_ && what.report.telemetry_choice.empty())
    what.report.telemetry_choice = std::move(unheard_->telemetry_choice);
  if (unheard_ && what.report.exchange_choice.empty())
    what.report.exchange_choice = std::move(unheard_->exchange_choice);
  if (unheard_ && what.report.warning.empty())
    what.report.warning = std::move(unheard_->warning);
  unheard_ = std::move(what.report);
  send_waiting_report();
}

void worker_protocol::on(const events::evaluated& what) {
  if (aggregator_)
    emit(effects::send_evaluation{what.report});
}

void worker_protocol::on(const events::decision_received& what) {
  if (!joined())
    return;
  const auto verdict = decisions_->offer(what.decision);
  if (verdict == offer_verdict::accepted && undecided_ && what.decision.key.window >= undecided_->window)
    undecided_.reset();
  emit(effects::decision_offered{what.decision, verdict});
}

void worker_protocol::on(const events::placement_received& what) {
  const auto& place = *what.placement;
  // Another aggregator, which did not know of this worker's generation, has given its number to another one.
  if (phase_ == phase::training && place.generation == newest_->generation && !what.same_store)
    return interrupt("another generation of the same number was formed");
  if (phase_ != phase::waiting || !ready_ || finishing_ || place.generation <= newest_->generation ||
      !std::ranges::binary_search(place.members, rank_))
    return;
  // Formed on a hello that was said before the last generation: the newer state in memory would be overwritten.
  if (!known(false))
    return log(log_level::warning,
               fmt::format("place_refused generation={} the next hello tells what has happened", place.generation));
  phase_ = phase::training;
  newest_ = what.placement;
  if (!options_.external_trainer && !options_.serves)
    watch_.entered(at_.seconds);
  decisions_->enter_generation(place.generation);
  log(log_level::info,
      fmt::format("placed generation={} members={} source={}", place.generation, place.members.size(), place.source));
  emit(effects::enter_generation{newest_});
}

void worker_protocol::on(const events::notice_received& what) {
  const auto& notice = what.notice;
  if (phase_ == phase::greeting && !waits_because_.empty() && notice.change == messages::generation_change::ended)
    return end(true, notice.reason);
  if (phase_ == phase::waiting)
    return greet();
  if (phase_ != phase::training || notice.generation != newest_->generation)
    return;
  if (notice.change == messages::generation_change::regroup)
    return emit(effects::ask_to_regroup{});
  log(log_level::warning,
      fmt::format("generation_ends generation={} reason={}", notice.generation, storage::quoted(notice.reason)));
  interrupt(notice.reason);
}

void worker_protocol::interrupt(const std::string& reason) {
  watch_.interrupted(at_.seconds);
  emit(effects::interrupt{reason});
}

// Coming to an end.

void worker_protocol::on(events::generation_left& what) {
  if (!joined() || phase_ == phase::ended || (what.goes_on && phase_ != phase::training))
    return;
  // A trainer that was lost and has ended meanwhile has left its generation twice, of which the end alone is told.
  if (farewell_step_ != farewell_step::none)
    return;
  watch_.left();
  attempted_steps_ = what.attempted_steps;
  account_ = std::move(what.account);
  if (!what.goes_on)
    return conclude();
  phase_ = phase::waiting;
  log(log_level::warning, fmt::format("generation_left generation={} steps={} reason={}{}", newest_->generation,
                                      account_.steps, storage::quoted(account_.reason),
                                      aggregator_ ? "" : " training waits for the arbitrator, which is lost"));
  if (!end_between_generations())
    greet();
}

/// First settles, so that decisions under way arrive before they are counted for the last time.
void worker_protocol::conclude() {
  if (!left_because_.empty()) {
    // The thread has written its checkpoint, or says why not.
    const bool said = account_.reason.starts_with(left_because_);
    left_because_ = said ? account_.reason : left_because_ + "; " + account_.reason;
    return end(true, left_because_);
  }
  phase_ = phase::leaving;
  log(log_level::info, fmt::format("training_ended succeeded={} reason={} steps={}", account_.succeeded,
                                   storage::quoted(account_.reason), account_.steps));
  concluded_seconds_ = at_.seconds;
  if (aggregator_)
    settle();
  else
    seek();
}

void worker_protocol::settle() {
  farewell_step_ = farewell_step::settling;
  emit(effects::settle_aggregator{options_.timeouts.request_timeout_ms});
}

/// While an arbitrator may still come back that would wait for this worker.
bool worker_protocol::may_seek() const {
  const bool late = 1000 * (at_.seconds - concluded_seconds_) > options_.timeouts.rejoin_timeout_ms;
  return !late && !stop_asked_ && account_.succeeded && left_because_.empty();
}

void worker_protocol::seek() {
  if (!may_seek())
    return tell_farewell();
  farewell_step_ = farewell_step::seeking;
  greet();
}

void worker_protocol::on(const events::aggregator_settled&) {
  if (farewell_step_ != farewell_step::settling)
    return;
  if (aggregator_)
    tell_farewell();
  else
    seek();
}

/// The farewell as it stands now, to an aggregator if there is one.
void worker_protocol::tell_farewell() {
  decisions_->close();
  farewell_step_ = farewell_step::telling;
  if (!aggregator_)
    return farewell_told();
  emit(effects::say_farewell{farewell(), options_.timeouts.request_timeout_ms});
}

void worker_protocol::on(const events::farewell_answered& what) {
  if (farewell_step_ != farewell_step::telling)
    return;
  if (what.heard)
    return farewell_told();
  log(log_level::warning, "farewell_not_heard");
  orphan("it did not hear the farewell");
  seek();
}

void worker_protocol::farewell_told() {
  farewell_step_ = farewell_step::none;
  if (left_because_.empty())
    return end(account_.succeeded, account_.reason);
  finishing_ = true;
  emit(effects::finish_training{left_because_});
}

messages::farewell worker_protocol::farewell() const {
  auto said = account_;
  said.host = options_.identity.host;
  said.incarnation = options_.identity.incarnation;
  const bool cancelled = finishing_ || (stop_asked_ && !joined());
  if (!left_because_.empty()) {
    said.succeeded = false;
    said.reason = left_because_;
    said.end = messages::farewell_end::left;
  } else if (!said.succeeded) {
    said.end = cancelled ? messages::farewell_end::cancelled : messages::farewell_end::failed;
  }
  if (!joined())
    return said;
  said.rank = rank_;
  said.telemetry_seconds = telemetry_seconds_;
  said.decisions = decisions_->counts();
  return said;
}

void worker_protocol::end(bool succeeded, const std::string& reason) {
  if (std::exchange(phase_, phase::ended) != phase::ended)
    emit(effects::end{succeeded, reason, farewell()});
}

void worker_protocol::on(const events::stop_requested&) {
  if (std::exchange(stop_asked_, true) || phase_ >= phase::leaving)
    return;
  if (!joined())
    return end(false, fmt::format("{}before training began", messages::stop_mark));
  emit(effects::ask_to_stop{});
  if (phase_ == phase::waiting)
    end_between_generations();
}

void worker_protocol::on(const events::leave_requested&) {
  if (leave_asked_seconds_ || phase_ >= phase::leaving)
    return;
  leave_asked_seconds_ = at_.seconds;
  if (!joined()) {
    left_because_ = fmt::format("{}its host was asked to end before it had joined", messages::leave_mark);
    return end(true, left_because_);
  }
  if (phase_ == phase::waiting)
    end_between_generations();
  else
    look_after_leave();
}

/// No other generation is waited for once a stop or a leave was asked for. False: neither was.
bool worker_protocol::end_between_generations() {
  if (stop_asked_) {
    finishing_ = true;
    const auto* when = newest_->generation == 0 ? "before training began" : "between two generations";
    emit(effects::finish_training{fmt::format("{}{}", messages::stop_mark, when)});
  } else if (leave_asked_seconds_) {
    part();
  }
  return stop_asked_ || leave_asked_seconds_;
}

/// In no generation any more. The others wait for nothing but the farewell, so it comes before the checkpoint.
void worker_protocol::part() {
  phase_ = phase::leaving;
  left_because_ = fmt::format("{}its host was asked to end, after step {}", messages::leave_mark, at_.steps);
  log(log_level::info, fmt::format("leaving steps={}", at_.steps));
  tell_farewell();
}

/// In mid-training: what is to be done by now about a leave that was asked for.
void worker_protocol::look_after_leave() {
  if (!leave_asked_seconds_ || phase_ != phase::training)
    return;
  const auto trains = std::ranges::lower_bound(newest_->members, options_.workers) - newest_->members.begin();
  const auto next = options_.serves ? leave_decision{leave_step::drop, "whoever it sums for drops the step in flight"}
                                    : decide_leave(at_.seconds, *leave_asked_seconds_, static_cast<std::size_t>(trains),
                                                   options_.timeouts);
  if (std::exchange(leaving_by_, next.step) == next.step)
    return;
  log(log_level::info, fmt::format("leave generation={} next={}", newest_->generation, storage::quoted(next.reason)));
  if (next.step == leave_step::stop)
    on(events::stop_requested{});
  else if (next.step == leave_step::ask)
    emit(effects::ask_to_regroup{});
  else if (next.step == leave_step::drop)
    interrupt("its host leaves: " + next.reason);
}

} // namespace dynamix::session
