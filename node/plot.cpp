#include "node/plot.hpp"

#include "node/plot_axis.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::node {
namespace {

using namespace plot_frame;

constexpr double plot_height = 200;
constexpr std::size_t marks_max = 200;
constexpr std::size_t colours_before_dashes = 8;

struct point {
  double x;
  double y;
};

/// The points that can be drawn.
std::vector<point> points_of(const std::vector<double>& x, const std::vector<double>& y, bool log_y) {
  std::vector<point> points;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i]) && (!log_y || y[i] > 0))
      points.push_back({x[i], y[i]});
  return points;
}

/// One plot's lines in place.
struct canvas {
  plot_axis x;
  plot_axis y;
  bool steps;

  double at_x(double value) const { return left + (width - left - right) * x.share(value); }
  double at_y(double value) const { return top + plot_height * (1 - y.share(value)); }
  std::string at(const point& place) const { return coordinate(at_x(place.x)) + " " + coordinate(at_y(place.y)); }

  std::string path(const std::vector<point>& points) const {
    std::string drawn;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i > 0 && steps)
        drawn += "H" + coordinate(at_x(points[i].x)) + "V" + coordinate(at_y(points[i].y));
      else
        drawn += (i == 0 ? "M" : "L") + at(points[i]);
    }
    return drawn;
  }
};

std::string stroke_of(std::size_t index) {
  std::string stroke = "stroke=\"" + plot_colour(index) + "\" stroke-width=\"1.8\"";
  if (index >= colours_before_dashes)
    stroke += index < 2 * colours_before_dashes ? " stroke-dasharray=\"6 3\"" : " stroke-dasharray=\"2 3\"";
  return stroke;
}

struct mark_style {
  plot_mark::kind what;
  const char* name;
  const char* stroke;
};
constexpr mark_style mark_styles[] = {
    {plot_mark::kind::generation, "new generation", "stroke=\"currentColor\" stroke-opacity=\"0.6\""},
    {plot_mark::kind::fault, "fault", "stroke=\"#d55e00\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\""},
    {plot_mark::kind::recovery, "back again", "stroke=\"#009e73\" stroke-width=\"1.5\" stroke-dasharray=\"2 3\""},
    {plot_mark::kind::target, "target", "stroke=\"#cc79a7\" stroke-width=\"1.5\" stroke-dasharray=\"8 3 2 3\""}};

/// Upright lines, and a legend's entry for each kind that there is.
std::string draw_marks(const plot& from, const canvas& on, std::vector<legend_entry>& entries) {
  std::string drawn;
  for (const auto& style : mark_styles) {
    bool any = false;
    for (std::size_t i = 0; i < std::min(from.marks.size(), marks_max); ++i) {
      const auto& mark = from.marks[i];
      const double share = on.x.share(mark.x);
      if (mark.what != style.what || !(share >= 0 && share <= 1))
        continue;
      any = true;
      const double x = on.at_x(mark.x);
      drawn += "<g><title>" + html_escape(mark.text) + "</title>" +
               svg_line(x, top, x, top + plot_height, style.stroke) + "</g>\n";
    }
    if (any)
      entries.push_back({style.name, style.stroke});
  }
  if (from.y_level > 0 && on.y.share(from.y_level) >= 0 && on.y.share(from.y_level) <= 1) {
    const double y = on.at_y(from.y_level);
    drawn += svg_line(left, y, width - right, y, mark_styles[3].stroke);
    entries.push_back({mark_styles[3].name, mark_styles[3].stroke});
  }
  return drawn;
}

/// Line `index` added to those below it, as the band between them.
plot stack(const plot& from) {
  plot stacked = from;
  std::vector<double> below;
  for (auto& line : stacked.lines) {
    below.resize(line.y.size(), 0);
    line.low = below;
    for (std::size_t i = 0; i < line.y.size(); ++i)
      below[i] += std::isfinite(line.y[i]) ? line.y[i] : 0;
    line.high = line.y = below;
  }
  stacked.stacked = false;
  return stacked;
}

std::string draw_axes(const plot& from, const canvas& on) {
  std::string drawn;
  for (const double tick : on.y.ticks()) {
    drawn += svg_line(left, on.at_y(tick), width - right, on.at_y(tick), "stroke=\"currentColor\" opacity=\"0.15\"");
    drawn += svg_text(left - 8, on.at_y(tick) + 4, "end", on.y.text(tick));
  }
  const double bottom = top + plot_height;
  return drawn + svg_level_axis(on.x, bottom, from.x_label) +
         svg_line(left, bottom, width - right, bottom, "stroke=\"currentColor\"") +
         svg_upright_label(top + plot_height / 2, from.y_label);
}

std::string draw_band(const plot& from, const plot_line& line, std::size_t index, const canvas& on, bool opaque) {
  const auto low = points_of(line.x, line.low, from.log_y);
  const auto high = points_of(line.x, line.high, from.log_y);
  if (low.size() < 2 || high.size() < 2)
    return "";
  std::string around;
  for (const auto& each : high)
    around += (around.empty() ? "M" : "L") + on.at(each);
  std::for_each(low.rbegin(), low.rend(), [&](const point& each) { around += "L" + on.at(each); });
  return "<path d=\"" + around + "Z\" fill=\"" + plot_colour(index) + "\" fill-opacity=\"" + (opaque ? "0.8" : "0.15") +
         "\"/>\n";
}

std::string draw_line(const std::vector<point>& points, std::size_t index, const canvas& on) {
  if (points.size() == 1)
    return "<circle cx=\"" + coordinate(on.at_x(points[0].x)) + "\" cy=\"" + coordinate(on.at_y(points[0].y)) +
           "\" r=\"3.5\" fill=\"" + plot_colour(index) + "\"/>\n";
  if (points.empty())
    return "";
  return "<path d=\"" + on.path(points) + "\" fill=\"none\" stroke-linejoin=\"round\" " + stroke_of(index) + "/>\n";
}

} // namespace

std::string to_svg(const plot& wanted) {
  const plot from = wanted.stacked ? stack(wanted) : wanted;
  extent x;
  extent y;
  for (const auto& line : from.lines)
    for (const auto* values : {&line.y, &line.low, &line.high})
      for (const auto& each : points_of(line.x, *values, from.log_y)) {
        x.add(each.x);
        y.add(each.y);
      }
  if (x.empty())
    return svg_no_data(from.title);
  const canvas on{.x = plot_axis::linear(x.low, x.high, 6, false),
                  .y = from.log_y ? plot_axis::logarithmic(y.low, y.high) : plot_axis::linear(y.low, y.high, 5, true),
                  .steps = from.steps};
  std::string drawn = draw_axes(from, on);
  for (std::size_t i = 0; i < from.lines.size(); ++i)
    drawn += draw_band(from, from.lines[i], i, on, wanted.stacked);
  std::vector<legend_entry> entries;
  for (std::size_t i = 0; i < from.lines.size(); ++i) {
    if (!wanted.stacked)
      drawn += draw_line(points_of(from.lines[i].x, from.lines[i].y, from.log_y), i, on);
    if (!from.lines[i].name.empty())
      entries.push_back({from.lines[i].name,
                         wanted.stacked ? "stroke-width=\"10\" stroke=\"" + plot_colour(i) + "\"" : stroke_of(i)});
  }
  drawn += draw_marks(from, on, entries);
  double legend_height = 0;
  const double legend_top = top + plot_height + 46;
  drawn += svg_legend(entries, left, legend_top, width - left - right, legend_height);
  return svg_document(width, legend_top + legend_height + 4, from.title, drawn);
}

} // namespace dynamix::node
