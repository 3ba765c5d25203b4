#include "faults/plan.hpp"

#include "cluster/value_reader.hpp"
#include "faults/plan_fields.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace dynamix::faults {
namespace {

constexpr std::size_t plan_bytes_max = 1U << 20;
constexpr std::size_t text_bytes_max = 4096;
constexpr std::size_t list_most = 64;
constexpr std::size_t rules_most = 256;
constexpr std::size_t errors_most = 20;

/// One value against its field: what is wrong with it, empty when it was taken over.
struct value_taker {
  const toml::node& node;
  const cluster::range& allowed;

  std::string wrong_type(const std::string& wanted) const {
    return "is " + cluster::type_text(node) + "; it must be " + wanted;
  }
  std::string out_of_range(const std::string& value) const {
    return "is " + value + "; it must be in " + to_string(allowed);
  }
  std::string operator()(double* into) const {
    if (!node.is_number())
      return wrong_type("a number in " + to_string(allowed));
    const double value = *node.value<double>();
    if (!allowed.contains(value))
      return out_of_range(cluster::number_text(value));
    *into = value;
    return "";
  }
  template <class Integer>
  std::string take_integer(Integer* into) const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value)
      return wrong_type("an integer in " + to_string(allowed));
    if (!allowed.contains(static_cast<double>(*value)))
      return out_of_range(std::to_string(*value));
    *into = static_cast<Integer>(*value);
    return "";
  }
  std::string operator()(std::uint64_t* into) const { return take_integer(into); }
  std::string operator()(std::uint32_t* into) const { return take_integer(into); }
  std::string operator()(bool* into) const {
    if (!node.is_boolean())
      return wrong_type("true or false");
    *into = *node.value<bool>();
    return "";
  }
  static std::string take_text(const toml::node& from, std::string& into) {
    const auto value = from.value_exact<std::string>();
    if (!value)
      return "is " + cluster::type_text(from) + "; it must be a string";
    if (value->empty() || value->size() > text_bytes_max ||
        std::ranges::any_of(*value, [](unsigned char c) { return c < 32 || c == 127; }))
      return "is " + cluster::shown(*value) + "; it must be one line of 1 to 4096 characters";
    into = *value;
    return "";
  }
  std::string operator()(std::string* into) const { return take_text(node, *into); }
  std::string operator()(std::vector<std::string>* into) const {
    into->clear();
    const auto* list = node.as_array();
    if (list == nullptr)
      return node.is_string() ? take_text(node, into->emplace_back()) : wrong_type("a string or a list of strings");
    if (list->empty() || list->size() > list_most)
      return "has " + std::to_string(list->size()) + " entries; it must have 1 to " + std::to_string(list_most);
    for (const auto& each : *list)
      if (const auto wrong = take_text(each, into->emplace_back()); !wrong.empty())
        return "holds an entry that " + wrong;
    return "";
  }
};

class plan_reader {
public:
  plan_reader(fault_plan& plan, std::vector<cluster::file_error>& errors) : plan_(plan), errors_(errors) {}

  void read(const toml::table& document) {
    static constexpr std::string_view sections[] = {"plan", "limits", "fault"};
    for (const auto& [key, value] : document)
      if (std::ranges::find(sections, key.str()) == std::end(sections))
        complain(key.source().begin, std::string(key.str()) + " is unknown; " +
                                         cluster::suggestion(key.str(), sections) +
                                         "a plan has [plan], [limits] and [[fault]]");
    read_section(document, "plan", plan_fields(), plan_);
    read_network(document);
    read_section(document, "limits", limit_fields(), plan_.limits);
    const auto* rules = document.get("fault");
    const auto* list = rules == nullptr ? nullptr : rules->as_array();
    if (list == nullptr || list->empty() || list->size() > rules_most || !list->is_array_of_tables())
      return complain(rules == nullptr ? toml::source_position{1, 1} : rules->source().begin,
                      "a plan has 1 to " + std::to_string(rules_most) + " sections [[fault]]");
    for (const auto& each : *list)
      read_rule(*each.as_table());
    check_end(document);
  }

private:
  void complain(const toml::source_position& at, const std::string& message) {
    errors_.push_back({plan_.path, at.line, at.column, message});
  }

  template <class Record>
  void read_section(const toml::table& document, std::string_view name, std::span<const plan_field<Record>> fields,
                    Record& into) {
    const auto* node = document.get(name);
    if (node == nullptr)
      return;
    if (const auto* table = node->as_table())
      read_fields(*table, name, fields, into);
    else
      complain(node->source().begin, std::string(name) + " must be a section, [" + std::string(name) + "]");
  }

  template <class Record>
  void read_fields(const toml::table& table, std::string_view section, std::span<const plan_field<Record>> fields,
                   Record& into) {
    std::vector<std::string_view> names;
    for (const auto& field : fields) {
      names.push_back(field.name);
      const auto label = std::string(section) + "." + std::string(field.name);
      const auto* node = table.get(field.name);
      if (node == nullptr && field.required)
        complain(table.source().begin, label + " is missing");
      if (node == nullptr)
        continue;
      if (const auto wrong = std::visit(value_taker{*node, field.allowed}, field.locate(into)); !wrong.empty())
        complain(node->source().begin, label + " " + wrong);
    }
    for (const auto& [key, value] : table)
      if (std::ranges::find(names, key.str()) == names.end())
        complain(key.source().begin, std::string(section) + "." + std::string(key.str()) + " is unknown; " +
                                         cluster::suggestion(key.str(), names) + "the section has " +
                                         cluster::quoted_list(names));
  }

  void read_rule(const toml::table& table) {
    rule_entry entry;
    const auto before = errors_.size();
    read_fields(table, "fault", rule_fields(), entry);
    if (errors_.size() > before)
      return;
    auto& rule = entry.rule;
    rule.targets = entry.targets;
    if (rule.rate_per_minute > 0 && table.get("repeat") == nullptr)
      rule.repeat = endless;
    rule.line = table.source().begin.line;
    rule.targets_line = table.get("target")->source().begin.line;
    rule.targets_column = table.get("target")->source().begin.column;
    if (read_kinds(table, entry) && read_direction(table, entry)) {
      check_network(table, rule);
      check_fields(table, rule);
      check_triggers(table, rule);
    }
    plan_.rules.push_back(std::move(rule));
  }

  void read_network(const toml::table& document) {
    static constexpr std::string_view names[] = {"proxy", "namespaces"};
    const auto found = std::ranges::find(names, plan_.network_name);
    if (found == std::end(names))
      return complain(document["plan"]["network"].node()->source().begin,
                      "plan.network is " + cluster::shown(plan_.network_name) + "; it must be one of " +
                          cluster::quoted_list(names));
    plan_.network = static_cast<fault_network>(found - std::begin(names));
  }

  /// A run that ends early has another accuracy than one that does not, and none ends after what has no end.
  void check_end(const toml::table& document) {
    if (plan_.after_last_fault_seconds < 0)
      return;
    const auto& at = document["plan"]["after_last_fault_seconds"].node()->source().begin;
    if (plan_.compare)
      complain(at, "plan.after_last_fault_seconds needs plan.compare = false; a run that ends early cannot be compared "
                   "with one that does not");
    for (const auto& rule : plan_.rules)
      if (rule.repeat == endless)
        complain(at, "plan.after_last_fault_seconds means nothing while the fault of line " +
                         std::to_string(rule.line) + " goes on for ever; give that a repeat");
  }

  bool read_kinds(const toml::table& table, rule_entry& entry) {
    std::vector<std::string_view> names;
    for (const auto& row : fault_kinds)
      names.push_back(row.name);
    for (const auto& name : entry.kinds) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end()) {
        complain(table.get("kind")->source().begin, "fault.kind is " + cluster::shown(name) + "; " +
                                                        cluster::suggestion(name, names) + "it must be one of " +
                                                        cluster::quoted_list(names));
        return false;
      }
      entry.rule.kinds.push_back(static_cast<fault_kind>(found - names.begin()));
    }
    return true;
  }

  bool read_direction(const toml::table& table, rule_entry& entry) {
    static constexpr std::string_view names[] = {"both", "out", "in"};
    const auto found = std::ranges::find(names, entry.direction);
    if (found == std::end(names))
      complain(table.get("direction")->source().begin, "fault.direction is " + cluster::shown(entry.direction) +
                                                           "; it must be one of " + cluster::quoted_list(names));
    else
      entry.rule.direction = static_cast<fault_direction>(found - std::begin(names));
    return found != std::end(names);
  }

  /// Fields that none of the rule's kinds has, and durations that one of them needs.
  void check_fields(const toml::table& table, const fault_rule& rule) {
    std::uint8_t any = 0;
    for (const auto kind : rule.kinds) {
      any |= row_of(kind).fields;
      if ((row_of(kind).fields & has_duration) != 0 && table.get("duration_seconds") == nullptr)
        complain(table.source().begin, "fault.duration_seconds is missing; a fault of kind " +
                                           cluster::quoted(to_string(kind)) + " needs it");
    }
    for (const auto& field : rule_fields())
      if (const auto* node = table.get(field.name); node != nullptr && field.kinds != 0 && (field.kinds & any) == 0)
        complain(node->source().begin, "fault." + std::string(field.name) + " means nothing to a fault of kind " +
                                           cluster::quoted(to_string(rule.kinds.front())));
  }

  /// Between namespaces whole hosts are cut off, and nothing else.
  void check_network(const toml::table& table, const fault_rule& rule) {
    if (plan_.network == fault_network::proxy)
      return;
    for (const auto kind : rule.kinds)
      if (row_of(kind).on_connection && (kind != fault_kind::partition || rule.direction != fault_direction::both))
        complain(table.get("kind")->source().begin,
                 "fault.kind is " + cluster::quoted(to_string(kind)) +
                     "; with plan.network = \"namespaces\" connections can only be partitioned, both ways");
  }

  void check_triggers(const toml::table& table, const fault_rule& rule) {
    int triggers = 0;
    for (const auto* name : {"at_seconds", "at_step", "at_window", "rate_per_minute"})
      triggers += table.get(name) != nullptr ? 1 : 0;
    if (triggers != 1)
      complain(table.source().begin, "fault has " + std::string(triggers == 0 ? "no trigger" : "several triggers") +
                                         "; it must have one of \"at_seconds\", \"at_step\", \"at_window\", "
                                         "\"rate_per_minute\"");
    if (rule.repeat > 1 && rule.rate_per_minute == 0 && rule.every_seconds == 0)
      complain(table.source().begin, "fault.every_seconds is missing; a fault that repeats needs it");
    if (rule.rate_per_minute > 0 && rule.every_seconds > 0)
      complain(table.get("every_seconds")->source().begin,
               "fault.every_seconds means nothing to a fault at random; rate_per_minute says how often");
  }

  fault_plan& plan_;
  std::vector<cluster::file_error>& errors_;
};

/// Whether a target's name is a role or a rank; `bad` says what is wrong with a rank.
bool is_role(const std::string& target, const cluster::cluster_file& file, std::string& bad) {
  static constexpr std::string_view roles[] = {"worker", "workers", "arbitrator", "arbitrators", "leader", "random"};
  if (std::ranges::find(roles, target) != std::end(roles))
    return true;
  if (!target.starts_with("rank:"))
    return false;
  std::uint32_t rank = 0;
  const auto* end = target.data() + target.size();
  if (std::from_chars(target.data() + 5, end, rank).ptr != end || target.size() == 5 || rank >= file.workers().size())
    bad = "; ranks are 0 to " + std::to_string(file.workers().size() - 1);
  return true;
}

} // namespace

plan_result parse_plan_text(const std::string& text, const std::string& path) {
  plan_result result;
  result.plan.path = path;
  result.plan.name = std::filesystem::path(path).stem().string();
  try {
    const toml::table document = toml::parse(std::string_view(text), std::string_view(path));
    plan_reader(result.plan, result.errors).read(document);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    result.errors.push_back({path, at.line, at.column, std::string(error.description())});
  }
  std::ranges::stable_sort(result.errors, {}, [](const auto& error) { return std::pair(error.line, error.column); });
  if (result.errors.size() > errors_most)
    result.errors.resize(errors_most);
  return result;
}

plan_result read_plan(const std::string& path) {
  std::string text;
  if (const auto problem = storage::read_file(path, plan_bytes_max, text); !problem.empty())
    return {.plan = {}, .errors = {{path, 0, 0, "cannot be read; it must be a TOML file of at most 1 MiB"}}};
  return parse_plan_text(text, path);
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

std::vector<cluster::file_error> check_targets(const fault_plan& plan, const cluster::cluster_file& file) {
  std::vector<std::string_view> names = {"worker", "workers", "arbitrator", "arbitrators", "leader", "random"};
  for (const auto& host : file.hosts)
    names.push_back(host.name);
  std::vector<cluster::file_error> errors;
  for (const auto& rule : plan.rules)
    for (const auto& target : rule.targets) {
      std::string bad;
      if (file.find(target) == nullptr && !is_role(target, file, bad))
        bad = "; " + cluster::suggestion(target, names) + "it must be a host of " + file.path +
              ", \"rank:N\", or one of " + cluster::quoted_list(std::span(names).first(6));
      if (!bad.empty())
        errors.push_back(
            {plan.path, rule.targets_line, rule.targets_column, "fault.target is " + cluster::shown(target) + bad});
    }
  return errors;
}

} // namespace dynamix::faults
