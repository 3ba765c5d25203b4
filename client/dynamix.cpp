// The C functions: each looks whether the call makes sense, goes to client::run, and keeps what went wrong as a text.

#include "client/dynamix.h"

#include "client/kernels.hpp"
#include "client/run.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <unistd.h>

static_assert(DYNAMIX_INTRODUCTION_COLUMNS == dynamix::client::introduction_columns);
static_assert(DYNAMIX_ROW_COLUMNS == dynamix::session::step_row_columns);

struct dynamix_run {
  explicit dynamix_run(const dynamix_options& options) : body(options) {}

  dynamix::client::run body;
  const pid_t process = ::getpid();
  std::string error;
  std::string notice;
};

namespace {

constexpr std::uint32_t default_connect_timeout_ms = 5000;
/// The smallest struct that was ever a caller's: its `size`.
constexpr std::size_t size_bytes = sizeof(std::uint32_t);

/// The caller's struct, which may be of another release: what it does not have is zero.
template <class Struct>
Struct taken(const Struct* given) {
  Struct copy{};
  if (given != nullptr)
    std::memcpy(&copy, given, std::min<std::size_t>(std::max<std::size_t>(given->size, size_bytes), sizeof copy));
  return copy;
}

/// As much of `made` as the caller's struct has room for; its size stays.
template <class Struct>
void give(Struct* to, const Struct& made) {
  const auto size = std::min<std::size_t>(to->size, sizeof made);
  if (size > size_bytes)
    std::memcpy(reinterpret_cast<char*>(to) + size_bytes, reinterpret_cast<const char*>(&made) + size_bytes,
                size - size_bytes);
}

void write_text(const std::string& text, char* to, std::size_t size) {
  if (to == nullptr || size == 0)
    return;
  const auto length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

/// What `action` returns, or the text of what it throws.
template <class Action>
std::string guarded(Action&& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string misuse_of(const dynamix_run& run, bool needs_begin) {
  if (::getpid() != run.process)
    return "this run belongs to process " + std::to_string(run.process) + ", this is process " +
           std::to_string(::getpid()) + ": only the process that opened a run may use it (not a data loader's worker)";
  if (needs_begin && !run.body.begun())
    return "begin comes first";
  return {};
}

/// Runs `action`, which returns an empty string or what is wrong.
template <class Action>
int call(dynamix_run* run, bool needs_begin, Action&& action) {
  if (run == nullptr)
    return DYNAMIX_ERROR;
  auto problem = misuse_of(*run, needs_begin);
  if (problem.empty())
    problem = guarded(std::forward<Action>(action));
  if (problem.empty())
    return DYNAMIX_OK;
  run->error = std::move(problem);
  return DYNAMIX_ERROR;
}

template <class Action>
int call(const dynamix_run* run, Action&& action) {
  // What is wrong is kept beside the run's state, which a constant run does not change.
  return call(const_cast<dynamix_run*>(run), true, std::forward<Action>(action));
}

/// What a function without a code for errors may use.
bool usable(const dynamix_run* run) {
  return run != nullptr && misuse_of(*run, true).empty();
}

} // namespace

uint32_t dynamix_abi_version(void) {
  return DYNAMIX_ABI_VERSION;
}

size_t dynamix_agent_path(uint32_t local_rank, char* path, size_t size) {
  const char* named = std::getenv("DYNAMIX_AGENT");
  std::string found = named == nullptr ? "" : named;
  std::error_code error;
  if (!found.empty() && std::filesystem::is_directory(found, error))
    found += "/" + std::to_string(local_rank) + ".sock";
  write_text(found, path, size);
  return found.size();
}

dynamix_run* dynamix_open(const dynamix_options* options, char* error, size_t error_size) {
  dynamix_run* run = nullptr;
  const auto problem = guarded([&]() -> std::string {
    const auto given = taken(options);
    if (options == nullptr || given.members < 1 || given.members > dynamix::messages::max_workers ||
        given.position >= given.members)
      return "position " + std::to_string(given.position) + " among " + std::to_string(given.members) +
             " members: expected a position below 1 to " + std::to_string(dynamix::messages::max_workers) + " members";
    run = new dynamix_run(given);
    return run->body.open(given.connect_timeout_ms == 0 ? default_connect_timeout_ms : given.connect_timeout_ms);
  });
  if (problem.empty())
    return run;
  delete run;
  write_text(problem, error, error_size);
  return nullptr;
}

void dynamix_close(dynamix_run* run) {
  delete run;
}

const char* dynamix_error(const dynamix_run* run) {
  return run == nullptr ? "there is no run" : run->error.c_str();
}

const char* dynamix_next_notice(dynamix_run* run) {
  if (run == nullptr || !misuse_of(*run, false).empty())
    return nullptr;
  auto text = run->body.next_notice();
  if (!text)
    return nullptr;
  run->notice = std::move(*text);
  return run->notice.c_str();
}

int dynamix_introduce(dynamix_run* run, const dynamix_workload* workload, int64_t* columns) {
  return call(run, false, [&] {
    return run->body.introduce(
        taken(workload), std::span<std::int64_t, DYNAMIX_INTRODUCTION_COLUMNS>(columns, DYNAMIX_INTRODUCTION_COLUMNS));
  });
}

int dynamix_begin(dynamix_run* run, const int64_t* rows) {
  return call(run, false, [&] {
    return run->body.begin({rows, std::size_t{run->body.members()} * DYNAMIX_INTRODUCTION_COLUMNS});
  });
}

int dynamix_start_epoch(dynamix_run* run) {
  return call(run, true, [&] { return run->body.start_epoch(); });
}

namespace {

/// `next` of a run fills a struct of the caller's, and says how it came out.
int give_next(dynamix_run* run, dynamix_deal* deal, std::string (dynamix::client::run::*next)(dynamix_deal&, int&)) {
  int verdict = DYNAMIX_OK;
  dynamix_deal made{};
  const int code = call(run, true, [&] { return (run->body.*next)(made, verdict); });
  if (code != DYNAMIX_OK)
    return code;
  if (verdict == DYNAMIX_OK)
    give(deal, made);
  return verdict;
}

} // namespace

int dynamix_fetch_next(dynamix_run* run, dynamix_deal* piece) {
  return give_next(run, piece, &dynamix::client::run::fetch);
}

int dynamix_deal_next(dynamix_run* run, dynamix_deal* deal) {
  return give_next(run, deal, &dynamix::client::run::deal);
}

int dynamix_samples(dynamix_run* run, uint32_t* numbers, size_t count) {
  return call(run, true, [&] { return run->body.samples({numbers, count}); });
}

int dynamix_ranges(const dynamix_run* run, dynamix_range* ranges, size_t count) {
  return call(run, [&] { return run->body.ranges({ranges, count}); });
}

int dynamix_shares(const dynamix_run* run, uint32_t* counts, size_t members) {
  return call(run, [&] { return run->body.shares({counts, members}); });
}

int dynamix_deliver(dynamix_run* run, dynamix_deal* deal) {
  dynamix_deal made{};
  const int code = call(run, true, [&] { return run->body.deliver(made); });
  if (code == DYNAMIX_OK && deal != nullptr)
    give(deal, made);
  return code;
}

int dynamix_leave_epoch(dynamix_run* run, uint64_t steps_to_come) {
  return call(run, true, [&] { return run->body.leave_epoch(steps_to_come); });
}

uint64_t dynamix_epoch_steps(const dynamix_run* run) {
  return usable(run) ? run->body.steps().epoch_steps() : 0;
}

uint32_t dynamix_due(const dynamix_run* run) {
  if (!usable(run))
    return 0;
  const auto& steps = run->body.steps();
  std::uint32_t due = 0;
  if (steps.measures())
    due |= DYNAMIX_MEASURE;
  if (steps.gathers())
    due |= DYNAMIX_GATHER;
  return due;
}

int dynamix_weights(const dynamix_run* run, double* own, double* total) {
  return call(run, [&] { return const_cast<dynamix_run*>(run)->body.weights(*own, *total); });
}

int dynamix_set_weights(dynamix_run* run, double own, double total) {
  return call(run, true, [&] { return run->body.set_weights(own, total); });
}

double dynamix_scale_f32(float* values, size_t count, double factor) {
  return dynamix::client::scale(values, count, factor);
}

double dynamix_scale_f64(double* values, size_t count, double factor) {
  return dynamix::client::scale(values, count, factor);
}

double dynamix_squares_f32(const float* values, size_t count) {
  return dynamix::client::squares(values, count);
}

double dynamix_squares_f64(const double* values, size_t count) {
  return dynamix::client::squares(values, count);
}

int dynamix_write_row(dynamix_run* run, double own_square, int64_t* row) {
  return call(run, true, [&] {
    return run->body.write_row(own_square, std::span<std::int64_t, DYNAMIX_ROW_COLUMNS>(row, DYNAMIX_ROW_COLUMNS));
  });
}

int dynamix_read_rows(dynamix_run* run, const int64_t* rows) {
  return call(run, true, [&] {
    return run->body.read_rows({rows, std::size_t{run->body.members()} * DYNAMIX_ROW_COLUMNS});
  });
}

int dynamix_rate(dynamix_run* run, double global_square, dynamix_step_rate* rate) {
  dynamix_step_rate made{};
  const int code = call(run, true, [&] { return run->body.rate(global_square, made); });
  if (code == DYNAMIX_OK)
    give(rate, made);
  return code;
}

int dynamix_complete(dynamix_run* run, const dynamix_step* step) {
  return call(run, true, [&] { return run->body.complete(taken(step)); });
}

int dynamix_evaluated(dynamix_run* run, double train_loss, double test_loss, double test_accuracy) {
  return call(run, true, [&] { return run->body.evaluated(train_loss, test_loss, test_accuracy); });
}

int dynamix_limit_batch(dynamix_run* run, uint32_t samples) {
  return call(run, true, [&] { return run->body.limit_batch(samples); });
}

int dynamix_get_status(const dynamix_run* run, dynamix_status* status) {
  dynamix_status made{};
  const int code = call(run, [&] { return run->body.status(made); });
  if (code == DYNAMIX_OK)
    give(status, made);
  return code;
}

int dynamix_batches(const dynamix_run* run, uint32_t* batches, size_t members) {
  return call(run, [&] { return run->body.batches({batches, members}); });
}

size_t dynamix_state_words(const dynamix_run* run) {
  return usable(run) ? run->body.steps().save().size() : 0;
}

int dynamix_save(const dynamix_run* run, uint64_t* words, size_t count) {
  return call(run, [&]() -> std::string {
    const auto state = run->body.steps().save();
    if (state.size() != count)
      return "the state has " + std::to_string(state.size()) + " words, not " + std::to_string(count);
    std::ranges::copy(state, words);
    return {};
  });
}

int dynamix_restore(dynamix_run* run, const uint64_t* words, size_t count) {
  return call(run, true, [&] { return run->body.restore({words, count}); });
}

int dynamix_restore_within(dynamix_run* run, const uint64_t* words, size_t count, const uint32_t* highest,
                           size_t members) {
  return call(run, true, [&] { return run->body.restore({words, count}, {highest, members}); });
}

int dynamix_catch_up(dynamix_run* run, const uint64_t* words, size_t count) {
  return call(run, true, [&] { return run->body.catch_up({words, count}); });
}

int dynamix_regroup(dynamix_run* run, const uint32_t* present, size_t members) {
  return call(run, true, [&] { return run->body.regroup({present, members}); });
}

int dynamix_finish(dynamix_run* run, uint32_t succeeded, const char* reason) {
  return call(run, false, [&] { return run->body.finish(succeeded != 0, reason == nullptr ? "" : reason); });
}
