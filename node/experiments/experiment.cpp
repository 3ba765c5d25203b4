#include "node/experiments/experiment.hpp"

#include "cluster/text_table.hpp"
#include "node/reports/sheet.hpp"
#include "node/reports/text.hpp"
#include "settings/rows.hpp"

#include <algorithm>
#include <array>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

using settings::choice_row;
using settings::closed;
using settings::in;
using settings::number_row;
using settings::presence;
using settings::text_row;

constexpr const char* noun = "experiment";
constexpr std::size_t bytes_max = 1U << 20;
constexpr std::size_t parts_most = 64;
constexpr std::size_t findings_most = 256;
constexpr double bound_most = 1e6;

constexpr std::array<std::string_view, 6> figure_names = {"seconds",    "speed",         "accuracy",
                                                          "equal-time", "interventions", "plateau"};
constexpr const char* best_rival = "best-rival";

bool is_filled_line(const std::string& text) {
  return !text.empty() && settings::is_line(text, 1024);
}
bool is_any_line(const std::string& text) {
  return settings::is_line(text, 4096);
}
bool is_part_name(const std::string& text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, fits);
}
constexpr settings::text_rule filled_rule = {is_filled_line, "a line of 1 to 1024 characters"};
constexpr settings::text_rule line_rule = {is_any_line, "a line of at most 4096 characters"};
constexpr settings::text_rule part_rule = {is_part_name, "a name of 1 to 64 small letters, digits and '-'"};

const std::vector<settings::field<experiment>> experiment_rows = {
    text_row("experiment", "title", in<&experiment::title>, "What it is about.", filled_rule, presence::required),
    text_row("experiment", "claim", in<&experiment::claim>, "What the source says, in a sentence.", line_rule),
    text_row("experiment", "note", in<&experiment::note>, "What a reader has to know of the figures.", line_rule),
    text_row("experiment", "needs", in<&experiment::needs>, "What has to be there before it begins, and how to get it.",
             line_rule),
    {"experiment", "minutes", in<&experiment::minutes>, "That it takes on two cores, about; 0: not known.",
     closed(0, 1e6)},
    text_row("experiment", "gpu", in<&experiment::gpu>, "Further changes of the parts that train, with `--scale gpu`.",
             filled_rule),
};

const std::vector<settings::field<experiment_part>> part_rows = {
    text_row("part", "name", in<&experiment_part::name>, "Its name, and its directory's.", part_rule,
             presence::required),
    text_row("part", "clusters", in<&experiment_part::clusters>,
             "Cluster files, or directories of them; a relative path starts at this file's directory.", filled_rule,
             presence::required, {.least = 1, .most = 64, .bare = true}),
    text_row("part", "policies", in<&experiment_part::policies>,
             "Comma-separated, as `compare --policies`; empty is what `compare` takes by default.", line_rule),
    {"part", "seeds", in<&experiment_part::seeds>, "Runs of each policy.", closed(1, 1000)},
    {"part", "episodes", in<&experiment_part::episodes>,
     "Runs in a row, over which a policy that learns goes on learning; the tables are of the last one.",
     closed(1, 1000)},
    {"part", "simulate", in<&experiment_part::simulate>, "In virtual time instead of training on this machine."},
    text_row("part", "set", in<&experiment_part::set>, "Changes of the cluster files, each \"section.field=value\".",
             filled_rule),
};

const std::vector<settings::field<experiment_finding>> finding_rows = {
    text_row("finding", "text", in<&experiment_finding::text>, "What is measured, in a few words.", filled_rule,
             presence::required),
    text_row("finding", "part", in<&experiment_finding::part>, "The part whose policy is judged.", part_rule,
             presence::required),
    text_row("finding", "policy", in<&experiment_finding::policy>, "The policy that is judged.", filled_rule),
    text_row("finding", "to_part", in<&experiment_finding::to_part>,
             "The part that it is compared with; empty is the same one.", line_rule),
    text_row("finding", "to_policy", in<&experiment_finding::to_policy>,
             "The policy that it is compared with; best-rival is the fastest of lb-bsp, omnilearn and goodput.",
             filled_rule),
    choice_row(
        "finding", "figure", in<&experiment_finding::figure>,
        "`seconds`: mean time to the target over the other's; `speed`: samples per second over the other's; `accuracy`:"
        " final test accuracy less the other's, in percentage points; `equal-time`: the same of the newest "
        "evaluations when the shorter of both runs has ended, mean of the seeds; `interventions`: the guard's share "
        "of the policy's own windows, in percent; `plateau`: the episode in which the mean reward has come 95 % of "
        "the way from the first one's to the mean of the last third, median of the seeds in which it rises.",
        figure_names),
    number_row("finding", "at_least", in<&experiment_finding::at_least>, "The claim holds from here on.",
               closed(-bound_most, bound_most), presence::absent),
    number_row("finding", "at_most", in<&experiment_finding::at_most>, "The claim holds up to here.",
               closed(-bound_most, bound_most), presence::absent),
};

class experiment_reader {
public:
  experiment_reader(settings::toml_reader& reader, experiment& into) : reader_(reader), into_(into) {}

  void read() {
    static constexpr std::string_view sections[] = {"experiment", "part", "finding"};
    reader_.allow(sections);
    reader_.section("experiment", std::span(experiment_rows), into_);
    const auto parts = reader_.tables("part", parts_most);
    if (parts.empty() && !reader_.broken().contains("part"))
      reader_.errors().push_back(
          {into_.path, 1, 1, fmt::format("an experiment has 1 to {} sections [[part]]", parts_most)});
    for (std::size_t i = 0; i < parts.size(); ++i)
      read_part(parts[i], fmt::format("part[{}]", i));
    const auto findings = reader_.tables("finding", findings_most);
    for (std::size_t i = 0; i < findings.size(); ++i)
      read_finding(findings[i], fmt::format("finding[{}]", i));
  }

private:
  void read_part(settings::toml_reader::table table, const std::string& key) {
    experiment_part part;
    reader_.read(table, key, "part", std::span(part_rows), part);
    if (std::ranges::count(into_.parts, part.name, &experiment_part::name) > 0)
      reader_.complain(key + ".name", "part.name is " + settings::shown(part.name) + ", as of a part before it");
    into_.parts.push_back(std::move(part));
  }

  void read_finding(settings::toml_reader::table table, const std::string& key) {
    experiment_finding finding;
    reader_.read(table, key, "finding", std::span(finding_rows), finding);
    check_part(key + ".part", finding.part);
    if (!finding.to_part.empty())
      check_part(key + ".to_part", finding.to_part);
    into_.findings.push_back(std::move(finding));
  }

  void check_part(const std::string& key, const std::string& name) {
    std::vector<std::string_view> names;
    for (const auto& part : into_.parts)
      names.push_back(part.name);
    if (std::ranges::count(names, name) == 0 && !reader_.broken().contains(key))
      reader_.complain(key, fmt::format("{} is not part of this experiment; {}its parts are {}", settings::shown(name),
                                        settings::suggestion(name, names), settings::quoted_list(names)));
  }

  settings::toml_reader& reader_;
  experiment& into_;
};

experiment_result parse(settings::toml_reader reader) {
  experiment_result result;
  result.of.path = reader.path();
  if (reader.readable())
    experiment_reader(reader, result.of).read();
  result.errors = reader.finish();
  return result;
}

const part_tables* find_part(const std::vector<part_tables>& tables, const std::string& name) {
  const auto found = std::ranges::find(tables, name, &part_tables::part);
  return found == tables.end() ? nullptr : &*found;
}

const comparison_row* find_row(const comparison& of, const std::string& policy) {
  const auto& name = policy == best_rival ? of.best_rival : policy;
  const auto found = std::ranges::find_if(of.rows, [&](const auto& row) { return row.of.policy == name; });
  return found == of.rows.end() ? nullptr : &*found;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Of the newest evaluation that was over by then; not finite before the first one.
double accuracy_at(const run_outcome& run, double seconds) {
  const auto& times = run.series.accuracy_seconds;
  const auto passed = std::ranges::upper_bound(times, seconds) - times.begin();
  return passed == 0 ? std::numeric_limits<double>::quiet_NaN()
                     : run.series.accuracy.at(static_cast<std::size_t>(passed - 1));
}

/// How much more accurate `mine` is when the shorter of two runs ends, mean of the seeds.
double gain_at_equal_time(const policy_runs& mine, const policy_runs& others) {
  std::vector<double> gains;
  for (std::size_t i = 0; i < std::min(mine.runs.size(), others.runs.size()); ++i) {
    const auto& left = mine.runs[i];
    const auto& right = others.runs[i];
    if (left.series.accuracy_seconds.empty() || right.series.accuracy_seconds.empty())
      return std::numeric_limits<double>::quiet_NaN();
    const double end = std::min(left.series.accuracy_seconds.back(), right.series.accuracy_seconds.back());
    gains.push_back(accuracy_at(left, end) - accuracy_at(right, end));
  }
  return gains.empty() ? std::numeric_limits<double>::quiet_NaN() : mean_of(gains);
}

/// Whether the tables have what is compared.
bool has_rows(const experiment_finding& finding, const comparison& mine, const comparison& others) {
  const bool alone = finding.figure == finding_figure::interventions || finding.figure == finding_figure::plateau;
  return find_row(mine, finding.policy) != nullptr && (alone || find_row(others, finding.to_policy) != nullptr);
}

/// One cluster's figure.
std::optional<double> figure_of(const experiment_finding& finding, const comparison& mine, const comparison& others) {
  const auto* row = find_row(mine, finding.policy);
  if (row == nullptr)
    return std::nullopt;
  if (finding.figure == finding_figure::interventions) {
    double windows = 0;
    for (const auto& run : row->of.runs)
      windows += static_cast<double>(run.windows) / static_cast<double>(row->of.runs.size());
    return windows > 0 ? finite(100 * row->interventions.mean / windows) : std::nullopt;
  }
  if (finding.figure == finding_figure::plateau) {
    const auto rising = plateaus_of(row->of);
    return 2 * rising.size() >= row->of.runs.size() ? finite(median_of(rising)) : std::nullopt;
  }
  const auto* other = find_row(others, finding.to_policy);
  if (other == nullptr)
    return std::nullopt;
  switch (finding.figure) {
  case finding_figure::seconds:
    return row->reached_always() && other->reached_always()
               ? finite(row->seconds_to_target.mean / other->seconds_to_target.mean)
               : std::nullopt;
  case finding_figure::speed:
    return finite(row->samples_per_second.mean / other->samples_per_second.mean);
  case finding_figure::accuracy:
    return finite(100 * (row->final_accuracy.mean - other->final_accuracy.mean));
  case finding_figure::equal_time:
    return finite(100 * gain_at_equal_time(row->of, other->of));
  case finding_figure::interventions:
  case finding_figure::plateau:
    break;
  }
  return std::nullopt;
}

std::string value_text(finding_figure figure, double value) {
  switch (figure) {
  case finding_figure::seconds:
  case finding_figure::speed:
    return fixed(value, 3);
  case finding_figure::accuracy:
  case finding_figure::equal_time:
    return (value >= 0 ? "+" : "") + fixed(value, 2) + " points";
  case finding_figure::interventions:
    return fixed(value, 1) + " %";
  case finding_figure::plateau:
    return fixed(value, 1);
  }
  return "";
}

std::string wanted_text(const experiment_finding& of) {
  std::string text = std::isfinite(of.at_least) ? ">= " + value_text(of.figure, of.at_least) : "";
  if (std::isfinite(of.at_most))
    text += (text.empty() ? "<= " : ", <= ") + value_text(of.figure, of.at_most);
  return text.empty() ? "told" : text;
}

std::string found_text(const experiment_finding& of, const judged_finding& judged) {
  if (!judged.value)
    return !judged.has_rows                          ? "no such row"
           : of.figure == finding_figure::plateau    ? "no rise in most seeds"
           : of.figure == finding_figure::equal_time ? "no evaluation of both by then"
           : of.figure == finding_figure::seconds    ? "target not reached by all"
                                                     : "runs failed";
  std::string text = value_text(of.figure, *judged.value);
  if (judged.lowest)
    text += fmt::format(" ({} to {})", value_text(of.figure, *judged.lowest), value_text(of.figure, *judged.highest));
  return text;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (const auto& cell : cells[i])
      text += "| " + cell + " ";
    text += "|\n";
    for (std::size_t column = 0; i == 0 && column < cells[i].size(); ++column)
      text += "|---";
    text += i == 0 ? "|\n" : "";
  }
  return text;
}

} // namespace

experiment_result parse_experiment_text(const std::string& text, const std::string& path) {
  return parse({noun, path, text});
}

experiment_result read_experiment(const std::string& path) {
  return parse(settings::toml_reader::open(noun, path, bytes_max));
}

std::string describe_experiment_markdown() {
  const experiment whole;
  const experiment_part part;
  const experiment_finding finding;
  return settings::to_markdown("[experiment]", settings::show(std::span(experiment_rows), whole)) + "\n" +
         settings::to_markdown("[[part]]", settings::show(std::span(part_rows), part)) + "\n" +
         settings::to_markdown("[[finding]]", settings::show(std::span(finding_rows), finding));
}

judged_finding judge(const experiment_finding& finding, const std::vector<part_tables>& tables) {
  const auto* mine = find_part(tables, finding.part);
  const auto* others = finding.to_part.empty() ? mine : find_part(tables, finding.to_part);
  if (mine == nullptr || others == nullptr || mine->clusters.size() != others->clusters.size())
    return {};
  std::vector<double> values;
  for (std::size_t i = 0; i < mine->clusters.size(); ++i) {
    const auto value = figure_of(finding, mine->clusters[i], others->clusters[i]);
    if (!value)
      return {.has_rows = has_rows(finding, mine->clusters[i], others->clusters[i])};
    values.push_back(*value);
  }
  judged_finding judged{.has_rows = true, .value = finite(median_of(values))};
  if (values.size() > 1) {
    judged.lowest = *std::ranges::min_element(values);
    judged.highest = *std::ranges::max_element(values);
  }
  if (judged.value && finding.bounded())
    judged.holds = *judged.value >= finding.at_least && *judged.value <= finding.at_most;
  return judged;
}

std::vector<std::vector<std::string>> finding_cells(const experiment& of, const std::vector<part_tables>& tables) {
  std::vector<std::vector<std::string>> cells = {{"finding", "found", "wanted", "holds"}};
  for (const auto& finding : of.findings) {
    const auto judged = judge(finding, tables);
    const char* verdict = !finding.bounded() ? "-" : judged.holds.value_or(false) ? "yes" : "no";
    cells.push_back({finding.text, found_text(finding, judged), wanted_text(finding), verdict});
  }
  return cells;
}

std::string to_text(const experiment& of, const std::vector<part_tables>& tables) {
  std::string text = of.title + "\n";
  if (!of.claim.empty())
    text += "  claim: " + of.claim + "\n";
  if (!of.note.empty())
    text += "  note: " + of.note + "\n";
  return of.findings.empty() ? text : text + "\n" + cluster::text_table(finding_cells(of, tables), 2);
}

std::string to_markdown(const experiment& of, const std::vector<part_tables>& tables, const std::string& command) {
  std::string text = "## " + of.title + "\n";
  if (!of.claim.empty())
    text += of.claim + "\n\n";
  if (!of.findings.empty())
    text += markdown_table(finding_cells(of, tables)) + "\n";
  for (const auto& part : tables)
    for (const auto& table : part.clusters) {
      text += fmt::format("{}, {}{}, target {}:\n\n", part.part, table.cluster, table.simulated ? ", simulated" : "",
                          percent(table.target_accuracy));
      text += markdown_table(cells_of(table)) + "\n";
      for (const auto& note : table.notes)
        text += "- " + note + "\n";
      text += table.notes.empty() ? "" : "\n";
    }
  if (!of.note.empty())
    text += of.note + "\n\n";
  return text + "```\n" + command + "\n```\n";
}

std::string to_page(const experiment& of, const std::vector<part_tables>& tables, const std::string& command) {
  std::vector<sheet_section> sections = {{.heading = "Claim and findings", .table = finding_cells(of, tables)}};
  for (const auto* line : {&of.claim, &of.note})
    if (!line->empty())
      sections.front().paragraphs.push_back(*line);
  for (const auto& part : tables)
    for (auto& section : sections_of(part.clusters)) {
      section.heading = part.part + ": " + section.heading;
      sections.push_back(std::move(section));
    }
  return sheet_page(of.title, command, sections);
}

} // namespace dynamix::node
