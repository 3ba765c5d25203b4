#include "dashboard/feed.hpp"

#include "dashboard/metrics.hpp"
#include "dashboard/politeness.hpp"
#include "dashboard/state_json.hpp"
#include "ledger/codec.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::dashboard {
namespace {

constexpr std::chrono::minutes notice_interval{1};
constexpr std::chrono::seconds answer_interval{1};
constexpr std::size_t answers_kept = 8;

} // namespace

feed::feed(const cluster::cluster_file& file, std::string ledger, feed_limits limits, find_notices notices)
    : file_(file), limits_(limits), run_(std::make_unique<ledger::run>(file_)), find_notices_(std::move(notices)),
      ledger_(std::move(ledger)), lines_(ledger_, limits.line_bytes, limits.through_links) {
  thread_ = std::thread([this] { follow(); });
}

feed::~feed() {
  stop();
  thread_.join();
}

void feed::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool feed::stopped() const {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

std::string feed::state(bool history) const {
  const std::scoped_lock lock(mutex_);
  return state_json(*run_, {.history = history,
                            .position = position_,
                            .remaining = size_ - std::min(size_, position_),
                            .skipped = skipped_,
                            .notices = notices_});
}

std::string feed::metrics() const {
  const std::scoped_lock lock(mutex_);
  return metrics_text(*run_, size_ - std::min(size_, position_));
}

std::string feed::explain(const explanation_question& asked) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [question, answer] : answers_)
    if (question == asked)
      return answer;
  asked_ = asked;
  return "";
}

/// With the ledger as it is now. A window's answer may still lack what came of the decision, so none is kept for long.
void feed::answer_question() {
  std::optional<explanation_question> asked;
  {
    const std::scoped_lock lock(mutex_);
    if (asked_ && std::chrono::steady_clock::now() - answered_ >= answer_interval)
      asked.swap(asked_);
  }
  if (!asked)
    return;
  ledger::line_reader lines(ledger_, limits_.line_bytes, limits_.through_links);
  auto answer = explain_at(file_, lines, *asked, [this] { return stopped(); });
  answered_ = std::chrono::steady_clock::now();
  const std::scoped_lock lock(mutex_);
  answers_.emplace_back(*asked, std::move(answer));
  if (answers_.size() > answers_kept)
    answers_.pop_front();
}

void feed::subscribe() {
  const std::scoped_lock lock(mutex_);
  ++subscribers_;
}

void feed::unsubscribe() {
  const std::scoped_lock lock(mutex_);
  --subscribers_;
}

feed::news feed::read_behind(std::uint64_t position, std::chrono::milliseconds patience, std::size_t frames_max) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return stopped_ || (caught_up_ && position != position_); });
  if (!caught_up_)
    return {.frames = {}, .position = position, .stopped = stopped_};
  news found{.frames = {}, .position = position_, .stopped = stopped_};
  // A position that is ahead belongs to another ledger.
  found.gap = position < kept_from_ || position > position_;
  if (found.gap)
    return found;
  for (const auto& one : events_) {
    if (one.id <= position)
      continue;
    if (found.frames.size() == frames_max)
      return found;
    found.frames.push_back(one.text);
    found.position = one.id;
  }
  found.position = position_;
  return found;
}

void feed::follow() {
  yield_to_training("page-feed");
  while (!stopped()) {
    look_for_notices();
    while (!stopped() && read_line()) {
    }
    answer_question();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limits_.look_interval, [this] { return stopped_; });
  }
}

void feed::look_for_notices() {
  const auto now = std::chrono::steady_clock::now();
  if (!find_notices_ || now - noticed_ < notice_interval)
    return;
  noticed_ = now;
  auto found = find_notices_();
  const std::scoped_lock lock(mutex_);
  notices_ = std::move(found);
}

void feed::begin_anew() {
  first_line_ = true;
  const std::scoped_lock lock(mutex_);
  caught_up_ = false;
  run_ = std::make_unique<ledger::run>(file_);
  events_.clear();
  event_bytes_ = 0;
  position_ = 0;
  skipped_ = 0;
  kept_from_ = 0;
}

/// Takes the next line of the ledger. False when there is none yet.
bool feed::read_line() {
  std::string line;
  const bool found = lines_.next(line);
  if (lines_.began_anew())
    begin_anew();
  if (const auto problem = lines_.take_problem(); !problem.empty()) {
    const ledger::row warning{.entry = ledger::event{ledger::event_kind::warning, "", problem}};
    take(&warning);
  }
  if (found) {
    const auto row = ledger::parse_line(line);
    take(row ? &*row : nullptr);
    if (std::exchange(first_line_, false) && lines_.size() > limits_.past_bytes) {
      // Behind the first row, which says what run it is.
      const auto from = lines_.position();
      lines_.skip_to(lines_.size() - limits_.past_bytes);
      const std::scoped_lock lock(mutex_);
      skipped_ = lines_.position() - std::min(from, lines_.position());
    }
    return true;
  }
  const std::scoped_lock lock(mutex_);
  size_ = lines_.size();
  if (!std::exchange(caught_up_, true))
    changed_.notify_all();
  return false;
}

/// `row`: null for a line that is none.
void feed::take(const ledger::row* row) {
  const std::scoped_lock lock(mutex_);
  position_ = lines_.position();
  size_ = lines_.size();
  if (row != nullptr)
    run_->add(*row);
  if (!caught_up_ || subscribers_ == 0 || row == nullptr) {
    // Nobody saw it come, so nobody can go on from before it.
    if (row != nullptr) {
      events_.clear();
      event_bytes_ = 0;
      kept_from_ = position_;
    }
    changed_.notify_all();
    return;
  }
  push(*row);
  changed_.notify_all();
}

void feed::push(const ledger::row& row) {
  auto text = std::make_shared<const std::string>("id: " + std::to_string(position_) +
                                                  "\ndata: " + update_json(*run_, row, notices_) + "\n\n");
  event_bytes_ += text->size();
  events_.push_back({position_, std::move(text)});
  while (events_.size() > limits_.events || (event_bytes_ > limits_.event_bytes && events_.size() > 1)) {
    kept_from_ = events_.front().id;
    event_bytes_ -= events_.front().text->size();
    events_.pop_front();
  }
}

} // namespace dynamix::dashboard
