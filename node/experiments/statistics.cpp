#include "node/experiments/statistics.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace dynamix::node {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

} // namespace

double student_t_975(std::size_t freedom) {
  static constexpr std::array<double, 30> table = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                                                   2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                                                   2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                                                   2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  assert(freedom >= 1);
  if (freedom <= table.size())
    return table[freedom - 1];
  constexpr double z = 1.959964;
  const double n = static_cast<double>(freedom);
  return z + (std::pow(z, 3) + z) / (4 * n) + (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n);
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? unknown
                        : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2)
    return unknown;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double coefficient_of_variation(const std::vector<double>& values) {
  const double mean = mean_of(values);
  return values.size() < 2 || mean == 0 ? 0 : standard_deviation(values) / std::abs(mean);
}

double median_of(std::vector<double> values) {
  if (values.empty())
    return unknown;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

estimate estimate_of(const std::vector<double>& values) {
  const double half_width = values.size() < 2 ? unknown
                                              : student_t_975(values.size() - 1) * standard_deviation(values) /
                                                    std::sqrt(static_cast<double>(values.size()));
  return {.mean = mean_of(values), .half_width = half_width, .count = values.size()};
}

std::optional<learning_course> course_of(const std::vector<double>& rewards) {
  constexpr std::size_t fewest = 6;
  constexpr double share = 0.95;
  constexpr double deviations = 2;
  if (rewards.size() < fewest)
    return std::nullopt;
  const std::vector<double> last(rewards.end() - static_cast<std::ptrdiff_t>(rewards.size() / 3), rewards.end());
  learning_course course{.first = rewards.front(), .plateau = mean_of(last), .episode = std::nullopt};
  const double rise = course.plateau - course.first;
  for (std::size_t i = 0; rise > deviations * standard_deviation(last) && i < rewards.size(); ++i) {
    const auto from = rewards.begin() + static_cast<std::ptrdiff_t>(i == 0 ? 0 : i - 1);
    const auto to = rewards.begin() + static_cast<std::ptrdiff_t>(std::min(i + 2, rewards.size()));
    if (mean_of({from, to}) >= course.first + share * rise) {
      course.episode = i + 1;
      break;
    }
  }
  return course;
}

estimate ratio_of(const std::vector<double>& numerators, const std::vector<double>& denominators) {
  assert(numerators.size() == denominators.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < numerators.size(); ++i)
    ratios.push_back(numerators[i] / denominators[i]);
  auto ratio = estimate_of(ratios);
  ratio.mean = mean_of(numerators) / mean_of(denominators);
  return ratio;
}

} // namespace dynamix::node
