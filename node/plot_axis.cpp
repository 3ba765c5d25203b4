#include "node/plot_axis.hpp"

#include "node/plot.hpp"
#include "node/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace dynamix::node {
namespace {

constexpr std::size_t logarithmic_ticks_max = 8;
constexpr double legend_row_height = 18;
constexpr double swatch_width = 20;

/// 1, 2, 5 or 10 times a power of ten: the smallest that is not below `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9))
      return factor * power;
  return 10 * power;
}

/// The largest of them that is not above `value`.
double round_down(double value) {
  const double power = std::pow(10, std::floor(std::log10(value) + 1e-9));
  for (const double factor : {5.0, 2.0})
    if (factor * power <= value * (1 + 1e-9))
      return factor * power;
  return power;
}

} // namespace

plot_axis plot_axis::linear(double low, double high, std::size_t ticks_wanted, bool round_out) {
  if (!(high > low)) { // one number: in the middle of a little room
    const double room = low == 0 ? 1 : 0.1 * std::abs(low);
    low -= room;
    high += room;
  }
  plot_axis axis;
  const double step = round_up((high - low) / static_cast<double>(std::max<std::size_t>(ticks_wanted, 1)));
  const double slack = 1e-9 * step;
  axis.low_ = round_out ? step * std::floor((low + slack) / step) : low;
  axis.high_ = round_out ? step * std::ceil((high - slack) / step) : high;
  axis.decimals_ = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  const double first = std::ceil((axis.low_ - slack) / step);
  for (double i = first; i * step <= axis.high_ + slack; ++i)
    axis.ticks_.push_back(i == 0 ? 0 : i * step); // never -0
  return axis;
}

plot_axis plot_axis::logarithmic(double low, double high) {
  plot_axis axis;
  axis.logarithmic_ = true;
  axis.low_ = round_down(low);
  axis.high_ = std::max(round_up(high), round_up(1.5 * axis.low_));
  for (double tick = axis.low_; tick <= axis.high_ * (1 + 1e-9); tick = round_up(1.5 * tick))
    axis.ticks_.push_back(tick);
  if (axis.ticks_.size() > logarithmic_ticks_max)
    std::erase_if(axis.ticks_, [](double tick) { return std::abs(std::remainder(std::log10(tick), 1)) > 1e-6; });
  return axis;
}

double plot_axis::share(double value) const {
  if (logarithmic_)
    return (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return (value - low_) / (high_ - low_);
}

std::string plot_axis::text(double tick) const {
  if (std::abs(tick) >= 1e6 && std::abs(tick) < 1e12) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%gM", tick / 1e6);
    return buffer.data();
  }
  if (tick != 0 && (std::abs(tick) >= 1e6 || std::abs(tick) < 1e-4)) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%g", tick);
    return buffer.data();
  }
  const int decimals = logarithmic_ ? std::max(0, static_cast<int>(-std::floor(std::log10(tick) + 1e-9))) : decimals_;
  if (decimals == 0 && std::abs(tick) >= 1000)
    return (tick < 0 ? "-" : "") + grouped(static_cast<std::uint64_t>(std::llround(std::abs(tick))));
  return fixed(tick, decimals);
}

std::string plot_colour(std::size_t index) {
  static constexpr std::array<const char*, 8> colours = {"#0079c4", "#d55e00", "#009e73", "#cc79a7",
                                                         "#e69f00", "#56b4e9", "#8a63d2", "#8c8c8c"};
  return colours[index % colours.size()];
}

double text_width(const std::string& text) {
  constexpr double width_by_size = 0.56;
  return width_by_size * plot_font_size *
         static_cast<double>(
             std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

std::string round_number(double value) {
  const double size = std::abs(value);
  if (size >= 1000 && size < 1e15)
    return (value < 0 ? "-" : "") + grouped(static_cast<std::uint64_t>(std::llround(size)));
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string coordinate(double value) {
  return fixed(value, 1);
}

std::string svg_text(double x, double y, const std::string& anchor, const std::string& text, const std::string& more) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\"" +
         (more.empty() ? "" : " " + more) + ">" + html_escape(text) + "</text>\n";
}

std::string svg_tick(double x, double y, double width, const std::string& text) {
  return svg_text(std::min(x, width - text_width(text) / 2 - 1), y, "middle", text);
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& more) {
  return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
         coordinate(y2) + "\" " + more + "/>\n";
}

std::string svg_level_axis(const plot_axis& axis, double bottom, const std::string& label) {
  using namespace plot_frame;
  std::string drawn;
  for (const double tick : axis.ticks()) {
    const double at = left + (width - left - right) * axis.share(tick);
    drawn += svg_line(at, bottom, at, bottom + 5, "stroke=\"currentColor\"") +
             svg_tick(at, bottom + 18, width, axis.text(tick));
  }
  return drawn + svg_text((left + width - right) / 2, bottom + 36, "middle", label);
}

std::string svg_upright_label(double middle, const std::string& label) {
  return svg_text(14, middle, "middle", label, "transform=\"rotate(-90 14 " + coordinate(middle) + ")\"");
}

std::string svg_no_data(const std::string& title) {
  using plot_frame::width;
  return svg_document(width, 100, title, svg_text(width / 2, 60, "middle", "no data", "opacity=\"0.7\""));
}

std::string svg_document(double width, double height, const std::string& title, const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 " + coordinate(width) + " " +
         coordinate(height) + "\" font-family=\"system-ui, sans-serif\" font-size=\"" + fixed(plot_font_size, 0) +
         "\" fill=\"currentColor\">\n<title>" + html_escape(title) + "</title>\n" +
         svg_text(width / 2, 20, "middle", title,
                  "font-size=\"" + coordinate(std::min(14.0, 13.0 * width / std::max(text_width(title), 1.0))) +
                      "\" font-weight=\"600\"") +
         body + "</svg>\n";
}

std::string svg_legend(const std::vector<legend_entry>& entries, double left, double top, double width,
                       double& height) {
  std::string drawn;
  double x = left;
  double y = top;
  for (const auto& entry : entries) {
    const double needed = swatch_width + 6 + text_width(entry.text) + 16;
    if (x > left && x + needed > left + width) {
      x = left;
      y += legend_row_height;
    }
    drawn += svg_line(x, y + 8, x + swatch_width, y + 8, entry.swatch);
    drawn += svg_text(x + swatch_width + 6, y + 12, "start", entry.text);
    x += needed;
  }
  height = entries.empty() ? 0 : y + legend_row_height - top;
  return drawn;
}

} // namespace dynamix::node
