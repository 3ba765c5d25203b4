#include "simulator/device_profile.hpp"

#include "settings/rows.hpp"
#include "settings/toml_reader.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace dynamix::simulator {
namespace {

using settings::in;
using settings::number_row;
using settings::presence;
using settings::text_row;

constexpr std::size_t profile_bytes_max = 1U << 20;
constexpr double batch_max = 1048576;
constexpr settings::entry_count point_count = {.least = 1, .most = 4096};

constexpr settings::text_rule profile_text_rule = {
    [](const std::string& text) { return !text.empty() && settings::is_line(text, 1000); },
    "one line of 1 to 1000 characters"};

/// A profile as its file holds it.
struct columns {
  std::string name;
  std::string source;
  std::uint32_t batch_highest = 0;
  std::vector<double> batch;
  std::vector<double> milliseconds;
  double evaluation_microseconds = 0;
};

constexpr settings::field<columns> all_profile_rows[] = {
    text_row("profile", "name", in<&columns::name>, "Of the device.", profile_text_rule, presence::required),
    text_row("profile", "source", in<&columns::source>, "Where the figures come from.", profile_text_rule,
             presence::required),
    number_row("profile", "batch_highest", in<&columns::batch_highest>,
               "Largest batch that fits in its memory; without it: not known.", settings::closed(0, batch_max),
               presence::absent),
    number_row("profile", "batch", in<&columns::batch>, "Batch sizes, whole and rising.",
               settings::closed(1, batch_max), presence::required, point_count),
    number_row("profile", "milliseconds", in<&columns::milliseconds>,
               "Of a step at each of them; a fall is noise and is made monotone.", settings::open_low(1e7),
               presence::required, point_count),
    number_row("profile", "evaluation_microseconds", in<&columns::evaluation_microseconds>,
               "Of a sample in an evaluation, forward only; without it evaluations take no time.",
               settings::closed(0, 1e9), presence::absent),
};
constexpr std::span<const settings::field<columns>> profile_rows = all_profile_rows;

/// What keeps the two columns from being a table; empty: nothing.
std::string fault_in(const columns& table) {
  if (std::ranges::any_of(table.batch, [](double batch) { return batch != std::floor(batch); }))
    return "holds a number with a fraction; batch sizes are whole";
  if (std::ranges::adjacent_find(table.batch, std::greater_equal()) != table.batch.end())
    return "does not rise; every batch size must be larger than the one before";
  if (table.batch.size() != table.milliseconds.size())
    return fmt::format("has {} entries and profile.milliseconds {}; there must be as many", table.batch.size(),
                       table.milliseconds.size());
  return "";
}

} // namespace

policy::step_time_curve monotone_curve(std::span<const policy::step_time> points) {
  const std::vector<double> weights(points.size(), 1);
  return policy::step_time_curve(policy::make_monotone({points.begin(), points.end()}, weights));
}

std::vector<cluster::file_error> read_device_profile(const std::string& path, device_profile& profile) {
  auto reader = settings::toml_reader::open("device profile", path, profile_bytes_max);
  columns table;
  if (reader.read_only("profile", profile_rows, table))
    if (const auto fault = fault_in(table); !fault.empty())
      reader.complain("profile.batch", "profile.batch " + fault);
  auto errors = reader.finish();
  if (!errors.empty())
    return errors;
  device_profile read{.name = std::move(table.name),
                      .source = std::move(table.source),
                      .batch_highest = table.batch_highest,
                      .evaluation_seconds = table.evaluation_microseconds * 1e-6};
  for (std::size_t i = 0; i < table.batch.size(); ++i)
    read.points.push_back({.batch = table.batch[i], .seconds = table.milliseconds[i] / 1000});
  read.curve = monotone_curve(read.points);
  profile = std::move(read);
  return errors;
}

std::string to_toml(const device_profile& profile) {
  columns table{.name = profile.name,
                .source = profile.source,
                .batch_highest = profile.batch_highest,
                .evaluation_microseconds = std::round(profile.evaluation_seconds * 1e8) / 100};
  for (const auto& each : profile.points) {
    table.batch.push_back(each.batch);
    table.milliseconds.push_back(std::round(each.seconds * 1e7) / 1e4);
  }
  auto fields = settings::show(profile_rows, table);
  std::erase_if(fields, [&](const auto& each) {
    return (each.name == "batch_highest" && table.batch_highest == 0) ||
           (each.name == "evaluation_microseconds" && table.evaluation_microseconds == 0);
  });
  return "[profile]\n" + settings::to_toml(fields);
}

std::string describe_device_profile_markdown() {
  return settings::to_markdown("[profile]", settings::show(profile_rows, {}));
}

} // namespace dynamix::simulator
