#include "simulator/device_profile.hpp"

#include "simulator/toml_section.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::simulator {
namespace {

constexpr double batch_max = 1048576;
constexpr double milliseconds_max = 1e7;
constexpr double microseconds_max = 1e9;

struct columns {
  std::vector<double> batch;
  std::vector<double> milliseconds;
};

/// What keeps the two columns from being a table; empty: nothing.
std::string fault_in(const columns& table) {
  if (std::ranges::any_of(table.batch, [](double batch) { return batch != std::floor(batch); }))
    return "holds a number with a fraction; batch sizes are whole";
  if (std::ranges::adjacent_find(table.batch, std::greater_equal()) != table.batch.end())
    return "does not rise; every batch size must be larger than the one before";
  if (table.batch.size() != table.milliseconds.size())
    return "has " + std::to_string(table.batch.size()) + " entries and profile.milliseconds " +
           std::to_string(table.milliseconds.size()) + "; there must be as many";
  return "";
}

std::string list_text(const std::vector<policy::step_time>& points, double (*value)(const policy::step_time&)) {
  std::string text;
  for (const auto& each : points)
    text += (text.empty() ? "" : ", ") + cluster::number_text(value(each));
  return "[" + text + "]";
}

} // namespace

policy::step_time_curve monotone_curve(std::span<const policy::step_time> points) {
  const std::vector<double> weights(points.size(), 1);
  return policy::step_time_curve(policy::make_monotone({points.begin(), points.end()}, weights));
}

std::vector<cluster::file_error> read_device_profile(const std::string& path, device_profile& profile) {
  std::vector<cluster::file_error> errors;
  toml_section section(path, "profile", errors);
  device_profile read;
  columns table;
  section.text("name", read.name);
  section.text("source", read.source);
  section.optional_count("batch_highest", read.batch_highest, {0, batch_max});
  section.numbers("batch", table.batch, {1, batch_max});
  section.numbers("milliseconds", table.milliseconds, {0, milliseconds_max, true});
  double evaluation_microseconds = 0;
  section.optional_number("evaluation_microseconds", evaluation_microseconds, {0, microseconds_max});
  if (!table.batch.empty() && !table.milliseconds.empty())
    if (const auto fault = fault_in(table); !fault.empty())
      section.complain("batch", fault);
  section.finish();
  if (!errors.empty())
    return errors;
  for (std::size_t i = 0; i < table.batch.size(); ++i)
    read.points.push_back({.batch = table.batch[i], .seconds = table.milliseconds[i] / 1000});
  read.curve = monotone_curve(read.points);
  read.evaluation_seconds = evaluation_microseconds * 1e-6;
  profile = std::move(read);
  return errors;
}

std::string to_toml(const device_profile& profile) {
  std::string text =
      "[profile]\nname = " + cluster::quoted(profile.name) + "\nsource = " + cluster::quoted(profile.source) + "\n";
  if (profile.batch_highest > 0)
    text += "batch_highest = " + std::to_string(profile.batch_highest) + "\n";
  text +=
      "batch = " + list_text(profile.points, [](const policy::step_time& each) { return each.batch; }) +
      "\nmilliseconds = " +
      list_text(profile.points, [](const policy::step_time& each) { return std::round(each.seconds * 1e7) / 1e4; }) +
      "\n";
  if (profile.evaluation_seconds > 0)
    text +=
        "evaluation_microseconds = " + cluster::number_text(std::round(profile.evaluation_seconds * 1e8) / 100) + "\n";
  return text;
}

} // namespace dynamix::simulator
