#include "node/plot.hpp"
#include "node/plot_axis.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynamix::node {
namespace {

using plot_frame::top;
using plot_frame::width;

constexpr double right = 64; ///< room for the number behind a bar
constexpr double row_height = 28;
constexpr double bar_height = 18;

struct canvas {
  double left;
  plot_axis x;

  double at_x(double value) const { return left + (width - left - right) * x.share(value); }
};

bool has_interval(const plot_bars& from, std::size_t group) {
  return group < from.low.size() && group < from.high.size() && std::isfinite(from.low[group]) &&
         std::isfinite(from.high[group]);
}

/// Of the parts that can be drawn.
double total_of(const std::vector<double>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [](double sum, double part) { return std::isfinite(part) ? sum + part : sum; });
}

std::string draw_group(const plot_bars& from, std::size_t group, const canvas& on) {
  const double y = top + row_height * static_cast<double>(group) + (row_height - bar_height) / 2;
  std::string drawn = svg_text(on.left - 8, y + bar_height / 2 + 4, "end", from.groups[group]);
  if (group >= from.values.size())
    return drawn;
  double begin = 0;
  for (std::size_t part = 0; part < from.values[group].size(); ++part) {
    const double value = from.values[group][part];
    if (!std::isfinite(value) || value <= 0)
      continue;
    drawn += "<rect x=\"" + coordinate(on.at_x(begin)) + "\" y=\"" + coordinate(y) + "\" width=\"" +
             coordinate(on.at_x(begin + value) - on.at_x(begin)) + "\" height=\"" + coordinate(bar_height) +
             "\" fill=\"" + plot_colour(part) + "\"/>\n";
    begin += value;
  }
  if (begin == 0)
    return drawn + svg_text(on.left + 6, y + bar_height / 2 + 4, "start", "-", "opacity=\"0.7\"");
  double end = begin;
  if (has_interval(from, group)) {
    const double middle = y + bar_height / 2;
    const double low = on.at_x(std::max(0.0, from.low[group]));
    const double high = on.at_x(from.high[group]);
    const std::string stroke = "stroke=\"currentColor\" stroke-width=\"1.5\"";
    drawn += svg_line(low, middle, high, middle, stroke) + svg_line(low, middle - 4, low, middle + 4, stroke) +
             svg_line(high, middle - 4, high, middle + 4, stroke);
    end = std::max(end, from.high[group]);
  }
  return drawn + svg_text(on.at_x(end) + 6, y + bar_height / 2 + 4, "start", round_number(begin));
}

} // namespace

std::string to_svg(const plot_bars& from) {
  double highest = 0;
  double label_width = 0;
  for (std::size_t group = 0; group < from.groups.size(); ++group) {
    label_width = std::max(label_width, text_width(from.groups[group]));
    if (group < from.values.size())
      highest = std::max(highest, total_of(from.values[group]));
    if (has_interval(from, group))
      highest = std::max(highest, from.high[group]);
  }
  if (highest <= 0)
    return svg_no_data(from.title);
  const canvas on{.left = std::min(200.0, label_width + 16), .x = plot_axis::linear(0, highest, 4, false)};
  const double bottom = top + row_height * static_cast<double>(from.groups.size());
  std::string drawn;
  for (const double tick : on.x.ticks()) {
    drawn += svg_line(on.at_x(tick), top, on.at_x(tick), bottom, "stroke=\"currentColor\" opacity=\"0.15\"");
    drawn += svg_text(on.at_x(tick), bottom + 16, "middle", on.x.text(tick));
  }
  for (std::size_t group = 0; group < from.groups.size(); ++group)
    drawn += draw_group(from, group, on);
  drawn += svg_line(on.left, top, on.left, bottom, "stroke=\"currentColor\"");
  drawn += svg_text((on.left + width - right) / 2, bottom + 34, "middle", from.y_label);
  std::vector<legend_entry> entries;
  for (std::size_t part = 0; part < from.parts.size(); ++part)
    if (std::ranges::any_of(from.values, [part](const auto& parts) { return part < parts.size() && parts[part] > 0; }))
      entries.push_back({from.parts[part], "stroke=\"" + plot_colour(part) + "\" stroke-width=\"10\""});
  double legend_height = 0;
  drawn += svg_legend(entries, on.left, bottom + 44, width - on.left - right, legend_height);
  return svg_document(width, bottom + 48 + legend_height, from.title, drawn);
}

} // namespace dynamix::node
