#include "node/reports/sheet.hpp"

#include "dashboard/inlined_page.hpp"
#include "storage/json_text.hpp"

namespace dynamix::node {
namespace {

using storage::json_text;

template <class Values>
void add_array(json_text& json, std::string_view name, const Values& values) {
  json.column(name, values, [](const auto& value) { return value; });
}

void add_line(json_text& json, const sheet_line& line) {
  json.open_object().member("name", line.name);
  add_array(json, "x", line.x);
  add_array(json, "y", line.y);
  if (!line.low.empty()) {
    add_array(json, "low", line.low);
    add_array(json, "high", line.high);
  }
  json.close_object();
}

void add_bar(json_text& json, const sheet_bar& bar) {
  json.open_object().member("name", bar.name);
  add_array(json, "values", bar.values);
  json.member("low", bar.low).member("high", bar.high).member("note", bar.note).close_object();
}

void add_chart(json_text& json, const sheet_chart& chart) {
  json.open_object().member("title", chart.title).member("format", chart.format).member("axis", chart.axis);
  json.member("log", chart.logarithmic).member("stacked", chart.stacked);
  if (!chart.lines.empty()) {
    json.key("lines").open_array();
    for (const auto& line : chart.lines)
      add_line(json, line);
    json.close_array();
  } else {
    add_array(json, "parts", chart.parts);
    json.key("rows").open_array();
    for (const auto& bar : chart.bars)
      add_bar(json, bar);
    json.close_array();
  }
  json.close_object();
}

void add_section(json_text& json, const sheet_section& section) {
  json.open_object().member("heading", section.heading);
  add_array(json, "paragraphs", section.paragraphs);
  add_array(json, "warnings", section.warnings);
  json.key("table").open_array();
  for (const auto& row : section.table) {
    json.open_array();
    for (const auto& cell : row)
      json.value(cell);
    json.close_array();
  }
  json.close_array().key("charts").open_array();
  for (const auto& chart : section.charts)
    if (!chart.lines.empty() || !chart.bars.empty())
      add_chart(json, chart);
  json.close_array().close_object();
}

} // namespace

std::string sheet_page(const std::string& title, const std::string& command,
                       const std::vector<sheet_section>& sections) {
  json_text json;
  json.open_object().member("title", title).member("command", command).key("sections").open_array();
  for (const auto& section : sections)
    add_section(json, section);
  return dashboard::inlined_page(json.close_array().close_object().take());
}

} // namespace dynamix::node
