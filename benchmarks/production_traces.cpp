/// What shares by paces give on recorded steps: each line of standard input is a step, the seconds that each worker
/// computed in it with an even share. Beside even shares, and the best split of each step, which nobody knows before.
/// `production_traces.py` makes the lines of published traces.

#include "policy/balance.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace dynamix;

constexpr std::uint32_t even_share = 64; ///< samples

struct step_seconds {
  double even = 0;
  double balanced = 0;
  double best = 0;
  bool moved = false; ///< the shares of the next step are others
};

/// As client/lockstep drives it: the first step is not measured, and what a step tells holds from the next one on.
std::vector<step_seconds> replay(const std::vector<std::vector<double>>& recorded) {
  const auto count = recorded.front().size();
  std::vector<policy::pace_tracker> paces(count);
  std::vector<std::uint32_t> batches(count, even_share);
  std::vector<step_seconds> steps;
  for (const auto& seconds : recorded) {
    step_seconds step{.even = std::ranges::max(seconds)};
    double samples_per_second = 0;
    std::vector<policy::balanced_worker> workers;
    for (std::size_t i = 0; i < count; ++i) {
      const double own = seconds[i] * batches[i] / even_share;
      step.balanced = std::max(step.balanced, own);
      samples_per_second += 1 / seconds[i];
      if (!steps.empty())
        paces[i].measure(batches[i], own);
      workers.push_back(
          {.pace = paces[i].estimate(batches[i]), .batch = batches[i], .lowest = 1, .highest = 16 * even_share});
    }
    step.best = static_cast<double>(count) / samples_per_second;
    auto next = policy::balance(count * even_share, workers).batches;
    step.moved = next != batches;
    batches = std::move(next);
    steps.push_back(step);
  }
  return steps;
}

/// Of all steps from `first` on, numbered from 1.
void print(const std::vector<step_seconds>& steps, std::size_t first) {
  step_seconds sum;
  for (auto i = first - 1; i < steps.size(); ++i) {
    sum.even += steps[i].even;
    sum.balanced += steps[i].balanced;
    sum.best += steps[i].best;
  }
  std::printf("from_step %zu even_over_balanced %.4f even_over_best %.4f share_of_best %.4f\n", first,
              sum.even / sum.balanced, sum.even / sum.best, sum.best / sum.balanced);
}

} // namespace

int main() {
  std::vector<std::vector<double>> recorded;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::vector<double> seconds;
    for (double one = 0; words >> one;)
      seconds.push_back(one);
    if (seconds.empty() || std::ranges::min(seconds) <= 0 ||
        (!recorded.empty() && seconds.size() != recorded.front().size())) {
      std::fprintf(stderr, "line %zu is not a time above 0 for each worker\n", recorded.size() + 1);
      return 1;
    }
    recorded.push_back(std::move(seconds));
  }
  if (recorded.size() < 11) {
    std::fprintf(stderr, "there are fewer than 11 steps\n");
    return 1;
  }
  const auto steps = replay(recorded);
  const auto moved = std::ranges::find(steps, true, &step_seconds::moved);
  std::printf("steps %zu workers %zu moves %td first_moved_behind_step %td\n", steps.size(), recorded.front().size(),
              std::ranges::count(steps, true, &step_seconds::moved),
              moved == steps.end() ? 0 : moved - steps.begin() + 1);
  for (const std::size_t first : {1, 4, 9})
    print(steps, first);
  return 0;
}
