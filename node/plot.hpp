#pragma once

/// Line plots as SVG, and the page around them. Pure; no script, no font and no style from elsewhere, so that a page is
/// one file that opens anywhere.

#include <string>
#include <vector>

namespace dynamix::node {

struct plot_line {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low; ///< with `high`: a band around the line; empty: none
  std::vector<double> high;
};

struct plot {
  std::string title;
  std::string x_label; ///< with its unit
  std::string y_label;
  std::vector<plot_line> lines;
  bool steps = false; ///< a value holds until the next
  bool log_y = false;
};

/// Axes with round ticks, a legend, a colour-blind-safe palette. Points that are not finite are left out; a plot
/// without points says "no data".
std::string to_svg(const plot& from);

struct plot_bars {
  std::string title;
  std::string y_label;
  std::vector<std::string> groups;         ///< one stacked bar each
  std::vector<std::string> parts;          ///< legend
  std::vector<std::vector<double>> values; ///< [group][part], >= 0
  std::vector<double> low;                 ///< with `high`: an interval a group, drawn as a whisker; not finite: none
  std::vector<double> high;
};
/// The bars lie, so that long names have room; each has its sum behind it.
std::string to_svg(const plot_bars& from);

/// Text made safe for HTML.
std::string html_escape(const std::string& text);
/// A table whose first row is the header.
std::string html_table(const std::vector<std::vector<std::string>>& rows);
/// A whole page with light and dark colours, readable at phone width. `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

} // namespace dynamix::node
