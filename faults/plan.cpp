#include "faults/plan.hpp"

#include "cluster/places.hpp"
#include "faults/plan_fields.hpp"
#include "settings/toml_reader.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/core.h>

namespace dynamix::faults {
namespace {

using settings::quoted;

constexpr const char* noun = "plan";
constexpr std::size_t plan_bytes_max = 1U << 20;
constexpr std::size_t rules_most = 256;

class plan_reader {
public:
  plan_reader(settings::toml_reader& reader, fault_plan& plan) : reader_(reader), plan_(plan) {}

  void read() {
    static constexpr std::string_view sections[] = {"plan", "limits", "fault"};
    reader_.allow(sections);
    reader_.section("plan", plan_fields(), plan_);
    reader_.section("limits", plan_fields(), plan_);
    const auto rules = reader_.tables("fault", rules_most);
    if (rules.empty() && !reader_.broken().contains("fault"))
      reader_.errors().push_back({plan_.path, 1, 1, fmt::format("a plan has 1 to {} sections [[fault]]", rules_most)});
    for (std::size_t i = 0; i < rules.size(); ++i)
      read_rule(rules[i], fmt::format("fault[{}]", i));
    check_end();
    check_scripts();
  }

private:
  void read_rule(settings::toml_reader::table table, const std::string& key) {
    const auto before = reader_.errors().size();
    fault_rule rule;
    reader_.read(table, key, "fault", rule_fields(), rule);
    if (reader_.errors().size() > before)
      return;
    if (rule.rate_per_minute > 0 && !reader_.gives(key + ".repeat"))
      rule.repeat = endless;
    rule.place = reader_.where(key);
    rule.targets_place = reader_.where(key + ".target");
    check_network(key, rule);
    if (rule.kinds.size() > 1 && std::ranges::count(rule.kinds, fault_kind::join) > 0)
      reader_.complain(key + ".kind",
                       "fault.kind lists \"join\", whose target is no host of the file's: it stands alone");
    check_fields(key, rule);
    check_triggers(key, rule);
    plan_.rules.push_back(std::move(rule));
  }

  /// A run that ends early has another accuracy than one that does not, and none ends after what has no end.
  void check_end() {
    const std::string key = "plan.after_last_fault_seconds";
    if (plan_.after_last_fault_seconds < 0)
      return;
    if (plan_.compare)
      reader_.complain(key, key + " needs plan.compare = false; a run that ends early cannot be compared with one that "
                                  "does not");
    for (const auto& rule : plan_.rules)
      if (rule.repeat == endless)
        reader_.complain(key, fmt::format("{} means nothing while the fault of line {} goes on for ever; give that a "
                                          "repeat",
                                          key, rule.place.line));
  }

  /// Scripts and hosts that join are on this machine's own network, and an unharmed run has neither.
  void check_scripts() {
    const bool joining = std::ranges::any_of(
        plan_.rules, [](const auto& rule) { return std::ranges::count(rule.kinds, fault_kind::join) > 0; });
    if (!joining && plan_.script.empty())
      return;
    const std::string key = plan_.script.empty() ? "fault" : "plan.script";
    const auto* what = plan_.script.empty() ? "a fault of kind \"join\"" : "plan.script";
    if (plan_.compare)
      reader_.complain(key, fmt::format("{} needs plan.compare = false", what));
    if (plan_.network != fault_network::proxy)
      reader_.complain(key, fmt::format("{} needs plan.network = \"proxy\"", what));
  }

  /// Fields that none of the rule's kinds has, and durations that one of them needs.
  void check_fields(const std::string& key, const fault_rule& rule) {
    std::uint8_t any = 0;
    for (const auto kind : rule.kinds) {
      any |= row_of(kind).fields;
      if ((row_of(kind).fields & has_duration) != 0 && !reader_.gives(key + ".duration_seconds"))
        reader_.complain(key, fmt::format("fault.duration_seconds is missing; a fault of kind {} needs it",
                                          quoted(to_string(kind))));
    }
    for (const auto& field : rule_fields())
      if (const auto place = fmt::format("{}.{}", key, field.name);
          reader_.gives(place) && field.mark != 0 && (field.mark & any) == 0)
        reader_.complain(place, fmt::format("fault.{} means nothing to a fault of kind {}", field.name,
                                            quoted(to_string(rule.kinds.front()))));
  }

  /// Between namespaces whole hosts are cut off, and nothing else.
  void check_network(const std::string& key, const fault_rule& rule) {
    if (plan_.network == fault_network::proxy)
      return;
    for (const auto kind : rule.kinds)
      if (row_of(kind).on_connection && (kind != fault_kind::partition || rule.direction != fault_direction::both))
        reader_.complain(key + ".kind",
                         fmt::format("fault.kind is {}; with plan.network = \"namespaces\" connections can only be "
                                     "partitioned, both ways",
                                     quoted(to_string(kind))));
  }

  void check_triggers(const std::string& key, const fault_rule& rule) {
    static constexpr std::string_view names[] = {"at_seconds", "at_step", "at_window", "rate_per_minute"};
    const auto triggers =
        std::ranges::count_if(names, [&](auto name) { return reader_.gives(fmt::format("{}.{}", key, name)); });
    if (triggers != 1)
      reader_.complain(key,
                       fmt::format("fault has {}; it must have one of {}",
                                   triggers == 0 ? "no trigger" : "several triggers", settings::quoted_list(names)));
    if (rule.repeat > 1 && rule.rate_per_minute == 0 && rule.every_seconds == 0)
      reader_.complain(key, "fault.every_seconds is missing; a fault that repeats needs it");
    if (rule.rate_per_minute > 0 && rule.every_seconds > 0)
      reader_.complain(key + ".every_seconds", "fault.every_seconds means nothing to a fault at random; "
                                               "rate_per_minute says how often");
  }

  settings::toml_reader& reader_;
  fault_plan& plan_;
};

plan_result parse(settings::toml_reader reader) {
  plan_result result;
  result.plan.path = reader.path();
  if (reader.readable())
    plan_reader(reader, result.plan).read();
  if (result.plan.name.empty())
    result.plan.name = std::filesystem::path(reader.path()).stem().string();
  result.errors = reader.finish();
  return result;
}

constexpr auto no_worker = "; no host of the cluster file has the role \"worker\"";

/// Whether a target's name is a role or a rank; `bad` says why it can hit nobody.
bool is_role(const std::string& target, const cluster::cluster_file& file, std::string& bad) {
  static constexpr std::string_view roles[] = {"worker", "workers", "arbitrator", "arbitrators", "leader", "random"};
  if (std::ranges::find(roles, target) != std::end(roles)) {
    if (target.starts_with("worker") && file.workers().empty())
      bad = no_worker;
    return true;
  }
  if (!target.starts_with("rank:"))
    return false;
  std::uint32_t rank = 0;
  const auto* end = target.data() + target.size();
  const auto workers = file.workers().size();
  if (std::from_chars(target.data() + 5, end, rank).ptr != end || target.size() == 5 || rank >= workers)
    bad = workers == 0 ? no_worker : fmt::format("; ranks are 0 to {}", workers - 1);
  return true;
}

/// Empty, or what the plan and the file do not agree on.
std::string why_no_scripts(const fault_plan& plan, const cluster::cluster_file& file) {
  const bool client = file.training.trainer == cluster::trainer_kind::client;
  if (client == !plan.script.empty())
    return "";
  if (client)
    return fmt::format("plan.script is missing: {} has training.trainer = \"client\", and nothing else trains",
                       file.path);
  return fmt::format("plan.script needs a cluster file with training.trainer = \"client\", and {} has not", file.path);
}

std::string why_not_joining(const std::string& target, const cluster::cluster_file& file) {
  if (file.find(target) != nullptr)
    return fmt::format(", which is a host of {}; a host that joins is none", file.path);
  if (file.membership != cluster::membership_kind::open)
    return fmt::format("; hosts join where cluster.membership = \"open\", as {} does not say", file.path);
  return cluster::is_host_name(target) ? "" : "; a host's name has 1 to 64 letters, digits, '.', '_' and '-'";
}

/// Of a host's worker: the script that trains there can die or stand still, and nothing else.
std::string why_no_target(const fault_plan& plan, const fault_rule& rule) {
  if (plan.script.empty())
    return ", of which only plan.script could be a process";
  for (const auto kind : rule.kinds)
    if (kind != fault_kind::kill && kind != fault_kind::crash && kind != fault_kind::hang && kind != fault_kind::slow)
      return fmt::format(", a script, to which a fault of kind {} means nothing", quoted(to_string(kind)));
  return "";
}

} // namespace

plan_result parse_plan_text(const std::string& text, const std::string& path) {
  return parse({noun, path, text});
}

plan_result read_plan(const std::string& path) {
  return parse(settings::toml_reader::open(noun, path, plan_bytes_max));
}

std::string cluster_path(const fault_plan& plan) {
  return plan.cluster.empty() ? "" : (std::filesystem::path(plan.path).parent_path() / plan.cluster).string();
}

bool repeat_faults(fault_plan& plan, std::uint32_t times) {
  bool any = false;
  for (auto& rule : plan.rules)
    if (rule.repeat > 1 && rule.repeat != endless) {
      rule.repeat = times;
      any = true;
    }
  return any;
}

cluster::cluster_file with_joining(const fault_plan& plan, cluster::cluster_file file) {
  for (const auto& rule : plan.rules)
    for (const auto& target : rule.targets)
      if (rule.kinds.front() == fault_kind::join && file.find(target) == nullptr) {
        cluster::host host{.name = target, .workers = rule.workers};
        host.slots = cluster::make_slots(host);
        file.hosts.push_back(std::move(host));
      }
  return file;
}

bool joins(const cluster::host& one) {
  return one.port == 0;
}

std::vector<cluster::file_error> check_targets(const fault_plan& plan, const cluster::cluster_file& file) {
  const auto all = with_joining(plan, file);
  std::vector<std::string_view> names = {"worker", "workers", "arbitrator", "arbitrators", "leader", "random"};
  for (const auto& host : all.hosts)
    names.push_back(host.name);
  std::vector<cluster::file_error> errors;
  if (auto problem = why_no_scripts(plan, file); !problem.empty())
    errors.push_back({plan.path, 1, 1, std::move(problem)});
  for (const auto& rule : plan.rules)
    for (const auto& target : rule.targets) {
      std::string bad;
      if (rule.kinds.front() == fault_kind::join)
        bad = why_not_joining(target, file);
      else if (cluster::is_slot(target) && all.find(target) != nullptr)
        bad = why_no_target(plan, rule);
      else if (all.find(target) == nullptr && !is_role(target, file, bad))
        bad = fmt::format("; {}it must be a host of {}, \"rank:N\", or one of {}", settings::suggestion(target, names),
                          file.path, settings::quoted_list(std::span(names).first(6)));
      if (!bad.empty())
        errors.push_back({plan.path, rule.targets_place.line, rule.targets_place.column,
                          fmt::format("fault.target is {}{}", settings::shown(target), bad)});
    }
  return errors;
}

} // namespace dynamix::faults
