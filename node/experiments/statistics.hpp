#pragma once

/// Figures over a few repeated runs. Pure.

#include <cstddef>
#include <optional>
#include <vector>

namespace dynamix::node {

/// A mean with the interval that holds the true one with 95 % probability, by Student's t.
struct estimate {
  double mean = 0;       ///< not finite without a number
  double half_width = 0; ///< of the interval; not finite for fewer than two numbers
  std::size_t count = 0;

  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
};

/// 97.5 % quantile of Student's t with `freedom` >= 1 degrees, to three decimals: tabulated up to 30, then by the
/// Cornish-Fisher expansion.
double student_t_975(std::size_t freedom);

double mean_of(const std::vector<double>& values);
/// Not finite for fewer than two.
double standard_deviation(const std::vector<double>& values);
/// Standard deviation over mean; 0 for fewer than two.
double coefficient_of_variation(const std::vector<double>& values);
/// Not finite for none.
double median_of(std::vector<double> values);
estimate estimate_of(const std::vector<double>& values);
/// How rewards rise over the episodes of a training.
struct learning_course {
  double first = 0;
  double plateau = 0; ///< mean of the last third
  /// The first episode, counted from 1, in which the mean with its neighbours has come 95 % of the way from the first
  /// to the plateau; none where the plateau is not above the first by twice the last third's standard deviation.
  std::optional<std::size_t> episode;
};
/// Nothing for fewer than six.
std::optional<learning_course> course_of(const std::vector<double>& rewards);
/// The ratio of the means, with the interval's width of the ratios pair by pair. Both are of one length, > 0.
estimate ratio_of(const std::vector<double>& numerators, const std::vector<double>& denominators);

} // namespace dynamix::node
