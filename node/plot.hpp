#pragma once

/// Line plots as SVG, and the page around them. Pure; no script, no font and no style from elsewhere, so that a page is
/// one file that opens anywhere.

#include <cstdint>
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

/// What happened at one place of the x axis, as an upright line.
struct plot_mark {
  enum class kind : std::uint8_t { generation, fault, recovery, target };
  double x = 0;
  kind what = kind::generation;
  std::string text; ///< shown where a pointer rests on it
};

struct plot {
  std::string title;
  std::string x_label; ///< with its unit
  std::string y_label;
  std::vector<plot_line> lines;
  bool steps = false; ///< a value holds until the next
  bool log_y = false;
  bool stacked = false;              ///< areas on top of each other, from 0; lines have the same x, and no bands
  std::vector<plot_mark> marks = {}; ///< at most 200 are drawn
  double y_level = 0;                ///< a level line there, above 0: what is to be reached
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

/// A number for each of many rows over time, as colours.
struct heat_map {
  std::string title;
  std::string x_label;
  std::string y_label;
  double x_low = 0; ///< of the first column's left edge
  double x_high = 1;
  std::vector<std::vector<double>> values; ///< [row][column], the rows of one length; not finite: empty
  bool logarithmic = false;
};
std::string to_svg(const heat_map& from);

/// Text made safe for HTML.
std::string html_escape(const std::string& text);
/// A table whose first row is the header.
std::string html_table(const std::vector<std::vector<std::string>>& rows);
/// Plots beside each other where there is room, below each other where there is not.
std::string html_plots(const std::vector<std::string>& svgs);
/// A whole page with light and dark colours, readable at phone width. `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

} // namespace dynamix::node
