#pragma once

/// What the plots are made of: axes, colours, elements of an SVG. Internal to plot*.cpp.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace dynamix::node {

/// Lowest and highest of some numbers.
struct extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

/// Where numbers lie along one direction of a plot, with round ticks.
class plot_axis {
public:
  /// About `ticks_wanted` ticks a round step apart; `round_out` makes the axis begin and end on one.
  static plot_axis linear(double low, double high, std::size_t ticks_wanted, bool round_out);
  /// For numbers above 0: ticks at 1, 2 and 5 times powers of ten, of many decades at the powers only.
  static plot_axis logarithmic(double low, double high);

  /// 0 at the axis's beginning, 1 at its end.
  double share(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  /// A tick as people read it: "0.25", "12,000", "2.5M", "1e-05".
  std::string text(double tick) const;

private:
  double low_ = 0;
  double high_ = 1;
  bool logarithmic_ = false;
  int decimals_ = 0;
  std::vector<double> ticks_;
};

/// Told apart by colour-blind people, readable on white and on black (after Okabe and Ito, 2008).
std::string plot_colour(std::size_t index);

/// Where a plot's field lies in its picture.
namespace plot_frame {
inline constexpr double width = 480; ///< two beside each other on a screen, one on a phone
inline constexpr double left = 76;   ///< room for the ticks and the name of an upright axis
inline constexpr double right = 16;
inline constexpr double top = 34; ///< room for the title
} // namespace plot_frame

inline constexpr double plot_font_size = 13;
/// About how wide text is drawn; SVG does not say.
double text_width(const std::string& text);

/// With about three digits: "0.123", "12.3", "1,234".
std::string round_number(double value);

/// A coordinate with one decimal.
std::string coordinate(double value);
/// <text> at a place; `anchor` is start, middle or end, `more` further attributes.
std::string svg_text(double x, double y, const std::string& anchor, const std::string& text,
                     const std::string& more = "");
/// A tick's number below its place, moved to the left where the picture of that width would cut it off.
std::string svg_tick(double x, double y, double width, const std::string& text);
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& more);
/// The ticks and the name of the level axis of a plot whose field ends at `bottom`.
std::string svg_level_axis(const plot_axis& axis, double bottom, const std::string& label);
/// The name of the upright axis of a plot whose field has its middle there.
std::string svg_upright_label(double middle, const std::string& label);
/// Instead of a plot that nothing was measured for.
std::string svg_no_data(const std::string& title);
/// The whole picture, as wide as its place allows.
std::string svg_document(double width, double height, const std::string& title, const std::string& body);

struct legend_entry {
  std::string text;
  std::string swatch; ///< attributes of the line that stands for it
};
/// Entries in as many rows as they need; `height` receives theirs.
std::string svg_legend(const std::vector<legend_entry>& entries, double left, double top, double width, double& height);

} // namespace dynamix::node
