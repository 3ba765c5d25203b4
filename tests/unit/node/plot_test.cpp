#include "node/plot.hpp"
#include "node/plot_axis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dynamix::node {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(plot_axis, ticks_are_round_and_hold_the_numbers_between_them) {
  const auto axis = plot_axis::linear(0.13, 0.87, 5, true);
  EXPECT_THAT(axis.ticks(),
              ElementsAre(DoubleEq(0), DoubleEq(0.2), DoubleEq(0.4), DoubleEq(3 * 0.2), DoubleEq(0.8), DoubleEq(1)));
  EXPECT_EQ(axis.text(axis.ticks()[3]), "0.6");
  EXPECT_DOUBLE_EQ(axis.share(0.5), 0.5);
  const auto exact = plot_axis::linear(3, 47, 5, false);
  EXPECT_THAT(exact.ticks(), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(exact.share(3), 0);
  EXPECT_EQ(exact.share(47), 1);
}

TEST(plot_axis, gives_a_single_number_room) {
  EXPECT_DOUBLE_EQ(plot_axis::linear(5, 5, 5, false).share(5), 0.5);
  EXPECT_DOUBLE_EQ(plot_axis::linear(0, 0, 5, false).share(0), 0.5);
  EXPECT_THAT(plot_axis::linear(0, 0, 5, true).ticks(), Not(IsEmpty()));
}

TEST(plot_axis, logarithmic_ticks_are_1_2_and_5) {
  const auto axis = plot_axis::logarithmic(32, 1024);
  EXPECT_THAT(axis.ticks(), ElementsAre(20, 50, 100, 200, 500, 1000, 2000));
  EXPECT_EQ(axis.text(1000), "1,000");
  EXPECT_THAT(plot_axis::logarithmic(1, 1e6).ticks(), ElementsAre(1, 10, 100, 1e3, 1e4, 1e5, 1e6));
  EXPECT_DOUBLE_EQ(plot_axis::logarithmic(1, 100).share(10), 0.5);
  EXPECT_EQ(plot_axis::logarithmic(0.01, 0.02).text(0.02), "0.02");
}

TEST(plot, draws_a_line_in_the_middle_of_its_axes) {
  const auto svg = to_svg(plot{.title = "loss",
                               .x_label = "seconds",
                               .y_label = "loss",
                               .lines = {{.name = "ppo", .x = {0, 10}, .y = {0, 10}}}});
  EXPECT_THAT(svg, HasSubstr("d=\"M76.0 234.0L464.0 34.0\"")) << "from corner to corner";
  EXPECT_THAT(svg, HasSubstr(">seconds</text>"));
  EXPECT_THAT(svg, HasSubstr(">ppo</text>"));
  EXPECT_THAT(svg, HasSubstr("currentColor"));
}

TEST(plot, a_step_holds_its_value_until_the_next) {
  const auto svg = to_svg(plot{.title = "", .lines = {{.name = "", .x = {0, 10}, .y = {0, 10}}}, .steps = true});
  EXPECT_THAT(svg, HasSubstr("d=\"M76.0 234.0H464.0V34.0\""));
}

TEST(plot, leaves_out_what_is_no_number) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto svg = to_svg(plot{.title = "", .lines = {{.name = "", .x = {0, 5, 6, 10}, .y = {0, nan, infinity, 10}}}});
  EXPECT_THAT(svg, HasSubstr("d=\"M76.0 234.0L464.0 34.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  const auto logarithmic =
      to_svg(plot{.title = "", .lines = {{.name = "", .x = {0, 5, 10}, .y = {1, 0, 100}}}, .log_y = true});
  EXPECT_THAT(logarithmic, HasSubstr("d=\"M76.0 234.0L464.0 34.0\"")) << "0 has no place on a logarithmic axis";
}

TEST(plot, says_when_there_is_nothing_to_draw) {
  EXPECT_THAT(to_svg(plot{.title = "empty"}), HasSubstr("no data"));
  EXPECT_THAT(to_svg(plot{.title = "", .lines = {{.name = "a", .x = {1}, .y = {std::nan("")}}}}), HasSubstr("no data"));
  EXPECT_THAT(to_svg(plot_bars{.title = "empty"}), HasSubstr("no data"));
}

TEST(plot, draws_a_single_point_and_a_band) {
  const auto point = to_svg(plot{.title = "", .lines = {{.name = "", .x = {1}, .y = {2}}}});
  EXPECT_EQ(count(point, "<circle"), 1U);
  const auto band =
      to_svg(plot{.title = "", .lines = {{.name = "", .x = {0, 1}, .y = {1, 1}, .low = {0, 0}, .high = {2, 2}}}});
  EXPECT_THAT(band, HasSubstr("d=\"M76.0 34.0L464.0 34.0L464.0 234.0L76.0 234.0Z\""));
}

TEST(plot, escapes_what_others_have_written) {
  const auto svg = to_svg(plot{.title = "<b> & \"c\"", .lines = {{.name = "a<b", .x = {1}, .y = {1}}}});
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(plot, lines_beyond_the_colours_are_dashed) {
  plot many{.title = ""};
  for (int i = 0; i < 9; ++i)
    many.lines.push_back({.name = std::to_string(i), .x = {0, 1}, .y = {0, 1}});
  EXPECT_EQ(count(to_svg(many), "stroke-dasharray"), 2U) << "the ninth line and its place in the legend";
}

TEST(plot, stacks_the_parts_of_a_bar) {
  const auto svg = to_svg(plot_bars{.title = "step",
                                    .y_label = "ms",
                                    .groups = {"static", "ppo"},
                                    .parts = {"compute", "exchange"},
                                    .values = {{6, 4}, {3, 2}}});
  // Of 10 the axis takes 356.3 points: "static" is 43.7 wide, 16 beside it, 64 at the right.
  EXPECT_THAT(svg, HasSubstr("x=\"59.7\" y=\"39.0\" width=\"213.8\""));
  EXPECT_THAT(svg, HasSubstr("x=\"273.5\" y=\"39.0\" width=\"142.5\""));
  EXPECT_THAT(svg, HasSubstr("x=\"59.7\" y=\"67.0\" width=\"106.9\""));
  EXPECT_THAT(svg, HasSubstr(">10.0</text>")) << "the sum stands behind the bar";
}

TEST(plot, explains_only_the_parts_that_some_bar_has) {
  const auto svg = to_svg(
      plot_bars{.title = "", .y_label = "ms", .groups = {"a"}, .parts = {"compute", "data"}, .values = {{6, 0}}});
  EXPECT_THAT(svg, HasSubstr(">compute<"));
  EXPECT_THAT(svg, Not(HasSubstr(">data<")));
}

TEST(plot, draws_an_interval_only_where_one_is_known) {
  const auto svg = to_svg(plot_bars{.title = "",
                                    .y_label = "s",
                                    .groups = {"a", "b"},
                                    .parts = {},
                                    .values = {{5}, {6}},
                                    .low = {4, std::nan("")},
                                    .high = {8, std::nan("")}});
  EXPECT_EQ(count(svg, "stroke-width=\"1.5\""), 3U) << "a line and two ends";
}

TEST(plot, marks_what_happened_and_explains_it) {
  plot marked{.title = "", .lines = {{.name = "", .x = {0, 10}, .y = {0, 10}}}};
  marked.marks = {{5, plot_mark::kind::fault, "ada <lost>"},
                  {6, plot_mark::kind::generation, "generation 2"},
                  {99, plot_mark::kind::fault, "beyond"}};
  marked.y_level = 8;
  const auto svg = to_svg(marked);
  EXPECT_THAT(svg, HasSubstr("<title>ada &lt;lost&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("<line x1=\"270.0\" y1=\"34.0\" x2=\"270.0\" y2=\"234.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("beyond"))) << "it is outside of the axis";
  EXPECT_THAT(svg, HasSubstr(">new generation</text>"));
  EXPECT_THAT(svg, HasSubstr(">fault</text>"));
  EXPECT_THAT(svg, HasSubstr(">target</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">back again</text>")));
}

TEST(plot, stacks_areas_from_zero) {
  const auto svg =
      to_svg(plot{.title = "",
                  .lines = {{.name = "a", .x = {0, 10}, .y = {5, 5}}, {.name = "b", .x = {0, 10}, .y = {5, 5}}},
                  .stacked = true});
  EXPECT_THAT(svg, HasSubstr("d=\"M76.0 134.0L464.0 134.0L464.0 234.0L76.0 234.0Z\"")) << "a fills the lower half";
  EXPECT_THAT(svg, HasSubstr("d=\"M76.0 34.0L464.0 34.0L464.0 134.0L76.0 134.0Z\"")) << "b lies on it";
}

TEST(heat_map, is_one_image_whatever_the_number_of_rows) {
  heat_map map{.title = "batch", .x_label = "seconds", .y_label = "rank", .x_low = 0, .x_high = 60};
  for (int row = 0; row < 4096; ++row)
    map.values.emplace_back(500, 32.0 + row % 7);
  map.values[0][0] = std::nan("");
  const auto svg = to_svg(map);
  EXPECT_EQ(count(svg, "<image"), 1U);
  EXPECT_LT(svg.size(), 100'000U);
  EXPECT_THAT(svg, HasSubstr("href=\"data:image/png;base64,iVBORw0KGgo"));
  EXPECT_THAT(svg, HasSubstr(">4095</text>"));
  EXPECT_THAT(svg, HasSubstr(">32.0</text>"));
  EXPECT_THAT(svg, HasSubstr(">38.0</text>"));
  EXPECT_THAT(to_svg(heat_map{.title = "empty"}), HasSubstr("no data"));
  EXPECT_THAT(to_svg(heat_map{.title = "", .values = {{0, -1}}, .logarithmic = true}), HasSubstr("no data"));
}

TEST(html, escapes_cells_and_puts_numbers_to_the_right) {
  const auto table = html_table({{"policy", "seconds"}, {"<ppo>", "12.5"}, {"static", "-"}});
  EXPECT_THAT(table, HasSubstr("<td>&lt;ppo&gt;</td><td class=\"number\">12.5</td>"));
  EXPECT_THAT(table, HasSubstr("<th class=\"number\">seconds</th>"));
}

TEST(html, a_page_needs_nothing_from_elsewhere) {
  const auto page = html_page("a & b", "<p>text</p>");
  EXPECT_THAT(page, HasSubstr("<title>a &amp; b</title>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* outside : {"<script", "<link", "@import", "src=", "url("})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
}

} // namespace
} // namespace dynamix::node
