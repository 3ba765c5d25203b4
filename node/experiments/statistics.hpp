#pragma once

/// Figures over a few repeated runs. Pure.

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
/// The ratio of the means, with the interval's width of the ratios pair by pair. Both are of one length, > 0.
estimate ratio_of(const std::vector<double>& numerators, const std::vector<double>& denominators);

} // namespace dynamix::node
