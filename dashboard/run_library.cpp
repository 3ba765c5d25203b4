#include "dashboard/run_library.hpp"

#include "dashboard/politeness.hpp"
#include "ledger/codec.hpp"
#include "ledger/line_reader.hpp"
#include "messages/loss.hpp"
#include "storage/atomic_file.hpp"
#include "storage/beneath.hpp"
#include "storage/json_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <limits>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dynamix::dashboard {
namespace {

using storage::json_text;

constexpr std::array<std::string_view, 7> state_names = {"unread", "waiting", "training", "silent",
                                                         "ended",  "failed",  "broken"};
constexpr std::array<ledger::signal, 6> drawn = {ledger::signal::elapsed_seconds,    ledger::signal::samples,
                                                 ledger::signal::accuracy,           ledger::signal::loss,
                                                 ledger::signal::samples_per_second, ledger::signal::global_batch};
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
/// A run that has written nothing for a minute and ten of its windows is not said to train, nor one to wait that has
/// not begun for longer than workers are waited for.
constexpr double silence_seconds = 60;
constexpr double silence_windows = 10;
constexpr double silence_before_training_seconds = 660;
constexpr std::chrono::minutes reread_interval{1};
constexpr std::size_t cluster_file_bytes = 8U << 20;

/// Of a path itself, not of what a link there leads to. False where there is nothing.
bool look_at(const std::filesystem::path& path, struct stat& file) {
  return ::lstat(path.c_str(), &file) == 0;
}

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

} // namespace

listed_run summarise(const std::string& name, const ledger::run& run, std::chrono::duration<double> quiet) {
  const auto& file = run.file();
  const auto& course = run.course();
  const auto known = [&](ledger::signal which) {
    return run.totals().windows > 0 ? static_cast<double>(course.newest(which)) : unknown;
  };
  const auto& policy = run.start().policy;
  listed_run row{.name = name,
                 .cluster = file.name,
                 .policy = policy.empty() ? std::string(cluster::to_string(file.arbitrator.policy)) : policy,
                 .script = file.training.trainer == cluster::trainer_kind::client,
                 .workers = run.workers().size(),
                 .started_at = run.starts().empty() ? "" : run.starts().front().started_at,
                 .windows = run.totals().windows,
                 .elapsed_seconds = known(ledger::signal::elapsed_seconds),
                 .samples = known(ledger::signal::samples),
                 .samples_per_second = known(ledger::signal::samples_per_second),
                 .test_accuracy = unknown,
                 .target_accuracy = run.starts().empty() ? file.training.target_accuracy : run.start().target_accuracy,
                 .seconds_to_target = unknown};
  const auto& evaluations = run.evaluations();
  if (!evaluations.empty())
    row.test_accuracy = evaluations.back().test_accuracy;
  const auto reached = std::ranges::find_if(evaluations, [&](const auto& one) {
    return row.target_accuracy > 0 && one.test_accuracy >= row.target_accuracy;
  });
  if (reached != evaluations.end())
    row.seconds_to_target = reached->elapsed_seconds;
  const double window_seconds = known(ledger::signal::step_seconds) * run.start().window_steps;
  const double patience = row.windows == 0 ? silence_before_training_seconds
                                           : silence_seconds + silence_windows * std::max(window_seconds, 0.0);
  if (run.ended()) {
    row.state = run.ended_well() ? run_state::ended : run_state::failed;
    row.said = run.ending();
  } else if (quiet.count() > patience) {
    row.state = run_state::silent;
    row.said = "its ledger has no end, and nobody writes to it";
  } else if (row.windows > 0) {
    row.state = run_state::training;
  } else {
    row.state = run_state::waiting;
    row.said = run.progress().waiting();
  }
  return row;
}

std::string course_json(const std::string& name, const ledger::run& run) {
  json_text json;
  json.open_object().member("name", name).member("windows", run.totals().windows);
  json.member("target_accuracy", run.start().target_accuracy).key("history").open_object();
  const auto& history = run.course().history();
  for (const auto which : drawn) {
    const auto column = static_cast<std::size_t>(which);
    json.key(ledger::signal_names[column]).open_array();
    for (std::size_t row = 0; row < history.rows(); ++row)
      json.value(static_cast<double>(history.row(row)[column]));
    json.close_array();
  }
  json.close_object().key("evaluations").open_array();
  for (const auto& one : run.evaluations())
    json.open_object()
        .member("elapsed_seconds", one.elapsed_seconds)
        .member("samples", one.samples)
        .member("test_accuracy", one.test_accuracy)
        .member("test_loss", messages::received_loss(one.test_loss))
        .close_object();
  return json.close_array().close_object().take();
}

/// A directory that may be a run's.
struct run_library::found_run {
  std::string name;
  bool begun = false;         ///< it has a ledger
  double written = 0;         ///< the system's clock
  std::uint64_t size = 0;     ///< of the ledger's newest part
  std::uint64_t identity = 0; ///< of that file

  bool same_as(const found_run& other) const {
    return begun == other.begun && written == other.written && size == other.size && identity == other.identity;
  }
};

/// What the thread keeps of a run: how it was found last, and the fold while it goes on.
struct run_library::shelf {
  found_run seen;
  std::unique_ptr<ledger::run> run;
  std::unique_ptr<ledger::line_reader> lines;
  bool first_line = true;
  bool any_row = false;
  std::string damage;                            ///< of its ledger
  std::chrono::steady_clock::time_point again{}; ///< it goes on, but is not followed: then it is read anew
};

run_library::run_library(std::string directory, library_limits limits)
    : directory_(std::move(directory)), limits_(limits) {
  thread_ = std::thread([this] { follow(); });
}

run_library::~run_library() {
  stop();
  thread_.join();
}

void run_library::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool run_library::stopped() const {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

void run_library::follow() {
  yield_to_training("page-runs");
  while (!stopped()) {
    for (const auto& found : look()) {
      if (stopped())
        return;
      read(found);
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limits_.look_interval, [this] { return stopped_; });
  }
}

/// Of a run's cluster file: others may have put anything in its place since it was looked at.
cluster::parse_result run_library::read_cluster(const std::string& name) const {
  const auto path = (real_ / name / "cluster.toml").string();
  const int file = storage::open_to_read(path, false);
  std::string text;
  auto problem = file < 0 ? std::string(std::strerror(errno))
                          : storage::read_file(fmt::format("/proc/self/fd/{}", file), cluster_file_bytes, text);
  if (file >= 0)
    ::close(file);
  if (problem.empty())
    return cluster::parse_cluster_text(text, path);
  cluster::parse_result failed;
  failed.errors.push_back({.file = path, .message = "cannot be read: " + problem});
  return failed;
}

/// The runs to list, those first that were written last; whatever else is there is told. What is gone is forgotten.
std::vector<run_library::found_run> run_library::look() {
  std::vector<found_run> runs;
  std::vector<left_out> others;
  std::error_code problem;
  std::size_t entries = 0;
  for (std::filesystem::directory_iterator at(directory_, problem), end; !problem && at != end; at.increment(problem)) {
    const auto name = at->path().filename().string();
    struct stat file {};
    if (++entries > limits_.entries || !look_at(at->path(), file))
      continue;
    if (S_ISLNK(file.st_mode))
      others.push_back({name, "is a symbolic link, and none is followed"});
    if (!S_ISDIR(file.st_mode))
      continue;
    found_run found{.name = name};
    if (!look_at(at->path() / "cluster.toml", file) || !S_ISREG(file.st_mode)) {
      others.push_back({name, "has no cluster.toml"});
      continue;
    }
    found.written = seconds_of(file.st_mtim);
    if (look_at(at->path() / "windows.jsonl", file) && S_ISREG(file.st_mode)) {
      found.begun = true;
      found.written = seconds_of(file.st_mtim);
      found.size = static_cast<std::uint64_t>(file.st_size);
      found.identity = file.st_ino;
    }
    runs.push_back(std::move(found));
  }
  std::ranges::sort(runs, std::greater(), &found_run::written);
  std::ranges::sort(others, {}, &left_out::name);
  std::error_code none;
  auto real = std::filesystem::canonical(directory_, none);
  const std::scoped_lock lock(mutex_);
  real_ = std::move(real);
  problem_ = problem ? problem.message() : "";
  runs_more_ = runs.size() - std::min(runs.size(), limits_.runs) + entries - std::min(entries, limits_.entries);
  left_out_more_ = others.size() - std::min(others.size(), limits_.left_out);
  runs.resize(std::min(runs.size(), limits_.runs));
  others.resize(std::min(others.size(), limits_.left_out));
  left_out_ = std::move(others);
  const auto gone = [&](const auto& kept) {
    return std::ranges::find(runs, kept.first, &found_run::name) == runs.end();
  };
  std::erase_if(told_, gone);
  std::erase_if(shelves_, gone);
  for (const auto& found : runs)
    if (!told_.contains(found.name))
      told_[found.name].row = {.name = found.name, .written_seconds = found.written};
  return runs;
}

std::size_t run_library::followed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(shelves_, [](const auto& each) { return each.second->run != nullptr; }));
}

/// Reads what a run has written since it was read last.
void run_library::read(const found_run& found) {
  auto& place = shelves_[found.name];
  const bool known = place != nullptr;
  if (!known)
    place = std::make_unique<shelf>();
  auto& kept = *place;
  if (known && kept.run == nullptr && (found.same_as(kept.seen) || std::chrono::steady_clock::now() < kept.again))
    return;
  kept.seen = found;
  if (kept.run == nullptr) {
    const auto path = real_ / found.name;
    auto parsed = read_cluster(found.name);
    if (!parsed.errors.empty()) {
      const std::scoped_lock lock(mutex_);
      told_[found.name].row = {.name = found.name,
                               .state = run_state::broken,
                               .said = cluster::to_string(parsed.errors.front()),
                               .written_seconds = found.written};
      return;
    }
    kept.run = std::make_unique<ledger::run>(parsed.file);
    kept.lines = std::make_unique<ledger::line_reader>(path / "windows.jsonl", limits_.line_bytes, false);
    kept.first_line = true;
    kept.any_row = false;
    kept.damage.clear();
  }
  for (std::string line; found.begun && !stopped() && kept.lines->next(line);) {
    if (kept.lines->began_anew())
      kept.run = std::make_unique<ledger::run>(cluster::cluster_file(kept.run->file()));
    if (const auto row = ledger::parse_line(line)) {
      kept.any_row = true;
      kept.run->add(*row);
    }
    if (std::exchange(kept.first_line, false) && kept.lines->size() > limits_.past_bytes)
      kept.lines->skip_to(kept.lines->size() - limits_.past_bytes); // behind the row that says what run it is
  }
  publish(found.name, kept, found);
}

/// Tells what is known of it now, and keeps the fold only where more may come.
void run_library::publish(const std::string& name, shelf& kept, const found_run& found) {
  auto row = summarise(name, *kept.run, std::chrono::duration<double>(now_seconds() - found.written));
  row.written_seconds = found.written;
  if (auto damage = kept.lines->take_problem(); !damage.empty())
    kept.damage = std::move(damage);
  if (!kept.damage.empty() || (found.size > 0 && !kept.any_row))
    row.said = kept.damage.empty() ? "windows.jsonl has no line of a ledger" : kept.damage;
  if (found.size > 0 && !kept.any_row)
    row.state = run_state::broken;
  const bool goes_on = row.state == run_state::training || row.state == run_state::waiting;
  auto course = std::make_shared<const std::string>(course_json(name, *kept.run));
  if (!goes_on || followed() > limits_.followed) {
    kept.run.reset();
    kept.lines.reset();
    kept.again = std::chrono::steady_clock::now() + (goes_on ? reread_interval : std::chrono::minutes(0));
  }
  const std::scoped_lock lock(mutex_);
  told_[name] = {std::move(row), std::move(course)};
}

std::string run_library::list() const {
  const std::scoped_lock lock(mutex_);
  json_text json;
  json.open_object().member("version", std::uint64_t{1}).member("directory", directory_.string());
  json.member("problem", problem_);
  json.member("runs_more", runs_more_).member("left_out_more", left_out_more_).key("left_out").open_array();
  for (const auto& [name, reason] : left_out_)
    json.open_object().member("name", name).member("reason", reason).close_object();
  json.close_array().key("runs").open_array();
  for (const auto& [name, told] : told_) {
    const auto& row = told.row;
    json.open_object().member("name", name).member("cluster", row.cluster).member("policy", row.policy);
    json.member("script", row.script).member("workers", row.workers);
    json.member("state", state_names[static_cast<std::size_t>(row.state)]).member("said", row.said);
    json.member("started_at", row.started_at).member("windows", row.windows);
    json.key("written_seconds").exact(std::floor(row.written_seconds));
    json.member("elapsed_seconds", row.elapsed_seconds).member("samples", row.samples);
    json.member("samples_per_second", row.samples_per_second).member("test_accuracy", row.test_accuracy);
    json.member("target_accuracy", row.target_accuracy).member("seconds_to_target", row.seconds_to_target);
    json.close_object();
  }
  return json.close_array().close_object().take();
}

std::shared_ptr<const std::string> run_library::course(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = told_.find(name);
  return found == told_.end() ? nullptr : found->second.course;
}

std::shared_ptr<feed> run_library::open(const std::string& name) {
  std::shared_ptr<feed> closed; // ends, and is waited for, without the lock
  const std::scoped_lock lock(mutex_);
  const auto told = told_.find(name);
  if (told == told_.end() || told->second.course == nullptr)
    return nullptr;
  if (const auto found = std::ranges::find(open_, name, &opened::name); found != open_.end()) {
    std::rotate(found, found + 1, open_.end());
    return open_.back().from;
  }
  auto parsed = read_cluster(name);
  if (!parsed.errors.empty())
    return nullptr;
  if (open_.size() >= limits_.open) {
    closed = std::move(open_.front().from);
    open_.erase(open_.begin());
  }
  const feed_limits limits{.past_bytes = limits_.past_bytes, .line_bytes = limits_.line_bytes, .through_links = false};
  open_.push_back({name, std::make_shared<feed>(parsed.file, (real_ / name / "windows.jsonl").string(), limits)});
  return open_.back().from;
}

} // namespace dynamix::dashboard
