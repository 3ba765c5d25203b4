#include "cluster/field_changes.hpp"

#include "cluster/fields.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::cluster {
namespace {

constexpr std::string_view hosts_prefix = "hosts.";
constexpr std::size_t hosts_named = 16; ///< in a message

std::string unknown(const std::string& what, std::string_view wrong, const std::string& owner,
                    const std::vector<std::string_view>& names) {
  return fmt::format("{} is unknown; {}{} has {}", what, settings::suggestion(wrong, names), owner,
                     settings::quoted_list(names));
}

/// Takes a value over. `label` is the field's name in the option, `owner` what the fields belong to.
std::string take(const std::vector<settings::bound_field>& fields, const std::string& name, const std::string& label,
                 const std::string& owner, const std::string& value) {
  std::vector<std::string_view> names;
  for (const auto& each : fields)
    names.push_back(each.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return unknown(label, name, owner, names);
  const auto& field = fields[static_cast<std::size_t>(found - names.begin())];
  const auto wrong = settings::read_value(field, value);
  return wrong.empty() ? "" : fmt::format("{} {}", field.label(), wrong);
}

std::string change_host(cluster_file& file, const std::string& field, const std::string& value, std::string& key) {
  const auto dot = field.rfind('.'); // a host's name may hold others
  if (dot < hosts_prefix.size())
    return fmt::format("{} is unknown; a host's field is hosts.NAME.FIELD", field);
  const auto name = field.substr(hosts_prefix.size(), dot - hosts_prefix.size());
  const auto host = std::ranges::find(file.hosts, name, &host::name);
  if (host == file.hosts.end()) {
    std::vector<std::string_view> names;
    for (const auto& each : file.hosts)
      names.push_back(each.name);
    const auto near = settings::suggestion(name, names);
    names.resize(std::min(names.size(), hosts_named));
    return fmt::format("there is no host {}; {}the hosts are {}{}", settings::shown(name), near,
                       settings::quoted_list(names), file.hosts.size() > hosts_named ? ", ..." : "");
  }
  auto entry = to_entry(*host);
  auto fields = settings::bind(host_fields(), entry);
  std::erase_if(fields, [](const auto& each) { return each.name == "name" || each.name == "count"; });
  auto wrong = take(fields, field.substr(dot + 1), field, "hosts." + name, value);
  key = fmt::format("host[{}].{}", host - file.hosts.begin(), field.substr(dot + 1));
  *host = from_entry(std::move(entry));
  return wrong;
}

std::string change_section(cluster_file& file, const std::string& field, const std::string& value) {
  auto sections = settings::sections_of(file_fields());
  const auto section = field.substr(0, field.find('.'));
  if (section.size() == field.size() || std::ranges::find(sections, section) == sections.end()) {
    sections.push_back("hosts");
    return unknown(field, section, "a cluster file", sections);
  }
  return take(settings::bind(file_fields(), file, section), field.substr(section.size() + 1), field, section, value);
}

/// `key` becomes the field's place in `cluster_file::positions`.
std::string change_one(cluster_file& file, const std::string& field, const std::string& value, std::string& key) {
  key = field;
  return field.starts_with(hosts_prefix) ? change_host(file, field, value, key) : change_section(file, field, value);
}

} // namespace

field_change parse_change(const std::string& text) {
  const auto equals = text.find('=');
  field_change change{.option = "--set " + text, .field = text.substr(0, equals), .value = {}};
  if (equals != std::string::npos)
    change.value = text.substr(equals + 1);
  return change;
}

std::vector<file_error> change_fields(cluster_file& file, const std::vector<field_change>& changes) {
  std::vector<file_error> errors;
  cluster_file changed = file;
  for (const auto& [option, field, value] : changes) {
    std::string key;
    const auto wrong = value ? change_one(changed, field, *value, key) : "it must be SECTION.FIELD=VALUE";
    if (!wrong.empty())
      errors.push_back({.file = option, .message = wrong});
    else
      changed.set_by[key] = option;
  }
  if (errors.empty() && !changes.empty())
    validate(changed, {}, errors);
  settings::arrange(errors);
  if (errors.empty())
    file = std::move(changed);
  return errors;
}

std::string set_field(cluster_file& file, const std::string& field, const std::string& value) {
  cluster_file changed = file;
  std::string key;
  if (auto wrong = change_one(changed, field, value, key); !wrong.empty())
    return wrong;
  std::vector<file_error> errors;
  validate(changed, {}, errors);
  if (!errors.empty())
    return errors.front().message;
  file = std::move(changed);
  return "";
}

} // namespace dynamix::cluster
