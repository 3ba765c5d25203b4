#pragma once

/// A page of sections with tables and charts in one HTML file: dashboard/page/sheet.js draws it. Pure.

#include <limits>
#include <string>
#include <vector>

namespace dynamix::node {

/// A number that is not finite is a gap.
struct sheet_line {
  std::string name; ///< of a stacked chart: compute, network, ... as the page's parts of a step
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low; ///< with `high` the edges of a band; both may be empty
  std::vector<double> high;
};

/// A bar, or parts of one that follow each other, with an interval around its end.
struct sheet_bar {
  std::string name;
  std::vector<double> values; ///< one a part
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  std::string note;
};

/// Of lines or of bars.
struct sheet_chart {
  std::string title;
  std::string format = "number";        ///< of a value: number, count, share, ratio, span (of seconds)
  std::string axis = "elapsed_seconds"; ///< or a count of something
  bool logarithmic = false;
  bool stacked = false;
  std::vector<sheet_line> lines = {};
  std::vector<std::string> parts = {}; ///< names of a bar's
  std::vector<sheet_bar> bars = {};
};

struct sheet_section {
  std::string heading;
  std::vector<std::string> paragraphs = {};
  std::vector<std::string> warnings = {};
  std::vector<std::vector<std::string>> table = {}; ///< header first
  std::vector<sheet_chart> charts = {};
};

/// Empty where the program was built without the page. `command` made what is shown.
std::string sheet_page(const std::string& title, const std::string& command,
                       const std::vector<sheet_section>& sections);

} // namespace dynamix::node
