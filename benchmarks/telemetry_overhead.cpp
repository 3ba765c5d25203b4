/// What measuring does to a step: one rank of a training whose rank 0 measures itself, or does not, in turns of a few
/// windows, all within one run. Prints each arm's step time over that of the arm that measures
/// nothing.
///
/// The ranks have a core each. Rank 1 trains a small batch, so it waits at every exchange, and rank 0's own time is the
/// step's. Rank 0 closes the window in the training thread: all that reading costs is in the step.

#include "benchmarks/trainer_loop.hpp"
#include "telemetry/survey.hpp"
#include "telemetry/training_thread.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <sched.h>
#include <string>
#include <time.h>
#include <vector>

namespace {

using namespace dynamix;

struct turns {
  std::vector<std::string> arms; ///< the last one is what the others are compared with
  std::uint32_t rounds = 40;     ///< each arm has a block forth and one back: a b c c b a
  std::uint32_t windows = 4;     ///< of a block, behind one that does not count
};

struct cost {
  double seconds = 0;
  double told_seconds = 0; ///< what measuring says that it took: reading, and programs in the kernel
  double cpu_seconds = 0;  ///< of the process: softirqs and programs that run in its time too
};

cost now() {
  const auto read = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return {.seconds = read(CLOCK_MONOTONIC), .cpu_seconds = read(CLOCK_PROCESS_CPUTIME_ID)};
}

std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ';');
  return text;
}

/// Programs that are attached anew for each block, to the one group in which the sockets were made.
class measuring {
public:
  measuring() {
    if (group_)
      begin("everything"); // a connection has callbacks only where somebody wanted them when it was made
    else
      std::fprintf(stderr, "telemetry_overhead: without eBPF: %s\n", problem_.c_str());
  }
  ~measuring() { end(); }
  measuring(const measuring&) = delete;
  measuring& operator=(const measuring&) = delete;

  void begin(const std::string& arm) {
    end();
    const bool everything = arm == "everything";
    if (everything && group_) {
      session_.network = telemetry::load_network_programs(group_->descriptor(), {}, session_.network_problem);
      session_.scheduler = telemetry::load_scheduler_programs(session_.scheduler_problem);
    }
    if (everything || arm == "unprivileged")
      meter_.emplace(telemetry::choose_sources(
          {.ebpf = everything, .tcp_info = true, .procfs = true, .nvml = everything}, &session_, {}));
  }

  telemetry::window_measurement close_window() {
    return meter_ ? meter_->close_window() : telemetry::window_measurement{};
  }

private:
  void end() {
    meter_.reset();
    session_.network.reset();
    session_.scheduler.reset();
  }

  std::string problem_;
  std::unique_ptr<telemetry::own_cgroup> group_ = telemetry::enter_own_cgroup(problem_);
  telemetry::kernel_session session_;
  std::optional<telemetry::window_meter> meter_;
};

class rank_observer : public trainer::observer {
public:
  rank_observer(trainer::decision_slot& decisions, std::uint32_t rank, std::uint32_t batch)
      : decisions_(decisions), first_{.key = {.term = 1, .window = 1}, .generation = 1, .rank = rank, .batch = batch} {}
  void started() override { decisions_.offer(first_); } // the batch sizes differ from here on
  void window_closed(const trainer::window_record&) override {}
  void evaluated(const messages::evaluation_report&) override {}
  void checkpoint_written(const std::string&, std::uint64_t) override {}
  void checkpoint_failed(const std::string&, std::uint64_t) override {}
  void step_completed(std::uint64_t) override {}
  trainer::step_request request() override { return trainer::step_request::none; }

private:
  trainer::decision_slot& decisions_;
  messages::decision first_;
};

/// Puts the arms in turns and notes what each window took.
class turn_taker final : public rank_observer {
public:
  turn_taker(trainer::decision_slot& decisions, const turns& plan, std::uint32_t batch, std::uint32_t warm_up)
      : rank_observer(decisions, 0, batch), plan_(plan), warm_up_(warm_up), costs_(plan.arms.size()) {}

  void started() override {
    telemetry::mark_training_thread();
    rank_observer::started();
  }

  void window_closed(const trainer::window_record& record) override {
    if (record.final || done())
      return;
    const auto measured = measures_.close_window();
    const auto ended = now();
    if (block_ >= 0 && window_ > 0)
      costs_[arm()].push_back({.seconds = ended.seconds - began_.seconds,
                               .told_seconds = measured.sampling_seconds + measured.program_seconds,
                               .cpu_seconds = ended.cpu_seconds - began_.cpu_seconds});
    if (block_ >= 0 && block_ < static_cast<int>(plan_.arms.size()) && !measured.choice.empty())
      std::printf("telemetry_overhead %s measures %s\n", plan_.arms[arm()].c_str(),
                  in_one_line(measured.choice).c_str());
    if (++window_ > (block_ < 0 ? warm_up_ : plan_.windows)) {
      ++block_;
      window_ = 0;
      measures_.begin(done() ? "" : plan_.arms[arm()]);
    }
    began_ = now();
  }

  trainer::step_request request() override {
    return done() ? trainer::step_request::stop : trainer::step_request::none;
  }

  /// Of each arm, every window in the order of time.
  const std::vector<std::vector<cost>>& costs() const { return costs_; }

private:
  bool done() const { return block_ >= static_cast<int>(2 * plan_.arms.size() * plan_.rounds); }
  std::size_t arm() const {
    const auto arms = plan_.arms.size();
    const auto place = static_cast<std::size_t>(block_) % (2 * arms);
    return place < arms ? place : 2 * arms - 1 - place;
  }

  turns plan_;
  std::uint32_t warm_up_;
  std::vector<std::vector<cost>> costs_;
  measuring measures_;
  int block_ = -1; ///< -1: the first windows, which do not count
  std::uint32_t window_ = 0;
  cost began_;
};

struct estimate {
  double mean = 0;
  double standard_error = 0;
};

/// Mean without the lowest and highest fifth, and its standard error (Tukey and McLaughlin 1963; Yuen 1974).
estimate trimmed_mean(std::vector<double> values) {
  std::ranges::sort(values);
  const auto cut = values.size() / 5;
  const auto kept = static_cast<double>(values.size() - 2 * cut);
  estimate found{.mean = std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / kept};
  for (auto& value : values)
    value = std::clamp(value, values[cut], values[values.size() - 1 - cut]);
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  found.standard_error = std::sqrt(squares / (count - 1)) * std::sqrt(count) / kept;
  return found;
}

/// Sums of `each` windows on end, of one of the two costs.
std::vector<double> sums(const std::vector<cost>& windows, double cost::*what, std::size_t each) {
  std::vector<double> found(windows.size() / each);
  for (std::size_t i = 0; i < found.size() * each; ++i)
    found[i / each] += windows[i].*what;
  return found;
}

double total(const std::vector<cost>& windows, double cost::*what) {
  return sums(windows, what, windows.size()).front();
}

std::vector<double> log_ratios(const std::vector<cost>& ours, const std::vector<cost>& theirs, double cost::*what,
                               std::size_t each) {
  auto ratios = sums(ours, what, each);
  const auto others = sums(theirs, what, each);
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] = std::log(ratios[i] / others[i]);
  return ratios;
}

double highest(const std::vector<double>& logs) {
  return logs.empty() ? 1 : std::exp(*std::ranges::max_element(logs));
}

double median_ms(const std::vector<cost>& windows, std::uint32_t steps) {
  auto seconds = sums(windows, &cost::seconds, 1);
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return 1000 * seconds[seconds.size() / 2] / steps;
}

void print(const turns& plan, const std::vector<std::vector<cost>>& costs, std::uint32_t steps) {
  const auto& base = costs.back();
  const std::size_t round = 2 * plan.windows;
  const std::size_t section = round * 10;
  for (std::size_t arm = 0; arm + 1 < costs.size(); ++arm) {
    const auto rounds = log_ratios(costs[arm], base, &cost::seconds, round);
    const auto seconds = trimmed_mean(rounds);
    const auto cpu = trimmed_mean(log_ratios(costs[arm], base, &cost::cpu_seconds, round));
    const auto ours = median_ms(costs[arm], steps);
    const auto theirs = median_ms(base, steps);
    const char* name = plan.arms[arm].c_str();
    const double told = total(costs[arm], &cost::told_seconds) / total(costs[arm], &cost::seconds);
    std::printf(
        "telemetry_overhead %s windows %zu median ms %.4f against %.4f, %.5f; highest of %zu windows each %.4f, of "
        "%zu each %.4f\n",
        name, base.size(), ours, theirs, ours / theirs, round, highest(rounds), section,
        highest(log_ratios(costs[arm], base, &cost::seconds, section)));
    std::printf("telemetry_overhead %s CPU time ratio %.5f +- %.5f; by its own account %.5f\n", name,
                std::exp(cpu.mean), cpu.standard_error, 1 + told);
    std::printf("telemetry_overhead %s ratio %.5f +- %.5f\n", name, std::exp(seconds.mean), seconds.standard_error);
  }
}

bool pin_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  return ::sched_setaffinity(0, sizeof(one), &one) == 0;
}

} // namespace

int main(int argc, char** argv) {
  benchmarks::step_plan plan{.warm_up = 30, .chunks = 1'000'000};
  std::uint32_t peer_batch = 8;
  turns taken{.arms = {"everything", "unprivileged", "nothing"}};
  CLI::App app("One rank of a training that measures itself in turns");
  app.add_option("--rank", plan.rank)->required()->check(CLI::Range(0, 1));
  app.add_option("--port", plan.port, "of rank 0's store")->required();
  app.add_option("--rounds", taken.rounds)->check(CLI::Range(10, 10000));
  app.add_option("--windows", taken.windows, "counted in each block")->check(CLI::Range(1, 1000));
  app.add_option("--arms", taken.arms,
                 "everything, unprivileged, and anything else for nothing; the last one is the rival");
  app.add_option("--peer-batch", peer_batch)->check(CLI::Range(1, 64));
  app.add_option("--data", plan.data, "folder of Fashion-MNIST");
  CLI11_PARSE(app, argc, argv);
  // Threads that are started later stay on the core, too. A machine with one core has both ranks on it.
  if (!pin_to(static_cast<int>(plan.rank)))
    std::fprintf(stderr, "telemetry_overhead: rank %u has no core of its own\n", plan.rank);
  try {
    auto file = benchmarks::describe(plan);
    file.batch.lowest = std::min(peer_batch, plan.batch);
    trainer::decision_slot decisions(plan.rank, file.batch.lowest, plan.batch);
    if (plan.rank == 0) {
      turn_taker observer(decisions, taken, plan.batch, plan.warm_up);
      benchmarks::train(plan, file, decisions, observer);
      print(taken, observer.costs(), plan.chunk_steps);
    } else {
      rank_observer observer(decisions, plan.rank, peer_batch);
      benchmarks::train(plan, file, decisions, observer);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "telemetry_overhead: %s\n", error.what());
    return 1;
  }
  return 0;
}
