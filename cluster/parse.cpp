/// From TOML to a cluster file, by the table of fields.

#include "cluster/fields.hpp"
#include "cluster/value_reader.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace dynamix::cluster {
namespace {

constexpr std::size_t errors_max = 20;
constexpr std::size_t file_bytes_max = 8U << 20; // thousands of hosts with every field written out
constexpr std::size_t hosts_max = 8192;          // 4096 workers, and those who decide for them
constexpr std::size_t emulations_max = 1000;

position to_position(const toml::source_position& from) {
  return {from.line, from.column};
}

/// Reads one document into a cluster file and gathers what is wrong with it.
class document_reader {
public:
  document_reader(parse_result& result) : result_(result) {}

  void read(const toml::table& document) {
    std::vector<std::string_view> sections;
    for (const auto& each : file_fields())
      if (sections.empty() || sections.back() != each.section)
        sections.push_back(each.section);
    std::vector<std::string_view> known = sections;
    known.push_back("host");
    refuse_unknown("", document, known);
    for (const auto section : sections)
      read_section(document, section);
    read_hosts(document);
    validate(result_.file, broken_, result_.errors);
  }

private:
  void complain(const position& place, const std::string& message) {
    result_.errors.push_back({result_.file.path, place.line, place.column, message});
  }
  void note(const std::string& key, const toml::source_region& region) {
    result_.file.positions[key] = to_position(region.begin);
  }

  void refuse_unknown(const std::string& section, const toml::table& table,
                      const std::vector<std::string_view>& known) {
    for (const auto& [key, node] : table)
      if (std::find(known.begin(), known.end(), key.str()) == known.end())
        complain(to_position(key.source().begin), (section.empty() ? "" : section + ".") + std::string(key.str()) +
                                                      " is unknown; " + suggestion(key.str(), known) +
                                                      (section.empty() ? "a cluster file has " : section + " has ") +
                                                      quoted_list(known));
  }

  /// Reads the fields of one table into `record`; `key` is the table's place in `positions`.
  template <class Record>
  void read_fields(const toml::table& table, const std::string& key, std::string_view section,
                   std::span<const field<Record>> fields, Record& record,
                   std::optional<std::string_view> subtable = {}) {
    std::vector<std::string_view> known;
    for (const auto& each : fields) {
      if (each.section != section)
        continue;
      known.push_back(each.name);
      const std::string place = key + "." + std::string(each.name);
      const toml::node* node = table.get(each.name);
      std::string wrong = node == nullptr ? "" : read_value(each, record, *node);
      if (node != nullptr)
        note(place, node->source());
      else if (each.required)
        wrong = "is missing; it must be " + allowed_text(each);
      if (wrong.empty())
        continue;
      broken_.insert(place);
      complain(result_.file.where(place), each.label() + " " + wrong);
    }
    if (subtable)
      known.push_back(*subtable);
    refuse_unknown(std::string(section), table, known);
  }

  void read_section(const toml::table& document, std::string_view section) {
    static const toml::table absent;
    const toml::node* node = document.get(section);
    const auto* table = node == nullptr ? &absent : node->as_table();
    const std::string key(section);
    if (node != nullptr)
      note(key, node->source());
    if (table == nullptr) {
      broken_.insert(key);
      return complain(result_.file.where(key), key + " is " + type_text(*node) + "; it must be a table, [" + key + "]");
    }
    read_fields(*table, key, section, file_fields(), result_.file);
  }

  /// The entries of an array of tables, at most `limit`; complains about anything else.
  std::vector<const toml::table*> tables_of(const toml::node& node, const std::string& key, const std::string& header,
                                            std::size_t limit) {
    note(key, node.source());
    const auto* list = node.as_array();
    std::vector<const toml::table*> tables;
    if (list == nullptr || !std::all_of(list->begin(), list->end(), [](const auto& each) { return each.is_table(); })) {
      complain(to_position(node.source().begin), header + " is " + type_text(node) +
                                                     (list == nullptr ? "" : " with other things than tables") +
                                                     "; it must be tables, each under [[" + header + "]]");
      broken_.insert(key);
      return tables;
    }
    if (list->size() > limit) {
      complain(to_position((*list)[limit].source().begin), "there are " + std::to_string(list->size()) + " [[" +
                                                               header + "]]; there may be " + std::to_string(limit));
      broken_.insert(key);
      return tables;
    }
    for (const auto& each : *list)
      tables.push_back(each.as_table());
    return tables;
  }

  void read_hosts(const toml::table& document) {
    const toml::node* node = document.get("host");
    if (node == nullptr)
      return;
    for (const auto* table : tables_of(*node, "host", "host", hosts_max)) {
      const std::string key = "host[" + std::to_string(result_.file.hosts.size()) + "]";
      note(key, table->source());
      host_entry entry;
      read_fields(*table, key, "host", host_fields(), entry, "emulate");
      if (const toml::node* changes = table->get("emulate"))
        read_emulations(*changes, key + ".emulate", entry.host.emulate);
      add_hosts(key, entry);
    }
  }

  /// One host, or `count` equal ones with numbered names and ports; each finds its places at the entry's.
  void add_hosts(const std::string& key, host_entry entry) {
    const std::size_t first = result_.file.hosts.size();
    if (first + entry.count > hosts_max || entry.host.port + entry.count - 1 > 65535) {
      broken_.insert(key + ".count");
      complain(result_.file.where(key + ".count"), "host.count is " + std::to_string(entry.count) + "; there may be " +
                                                       std::to_string(hosts_max) + " hosts, and ports end at 65535");
      entry.count = 1;
    }
    std::map<std::string, position> places;
    for (const auto& [field, place] : result_.file.positions)
      if (field.starts_with(key))
        places.emplace(field.substr(key.size()), place);
    for (std::uint32_t i = 0; i < entry.count; ++i) {
      auto one = entry;
      if (entry.count > 1) {
        one.host.name += "-" + std::to_string(i + 1);
        one.host.port = static_cast<std::uint16_t>(entry.host.port + i);
        for (const auto& [field, place] : places)
          result_.file.positions["host[" + std::to_string(first + i) + "]" + field] = place;
      }
      result_.file.hosts.push_back(from_entry(std::move(one)));
    }
  }

  void read_emulations(const toml::node& node, const std::string& key, std::vector<emulation>& into) {
    for (const auto* table : tables_of(node, key, "host.emulate", emulations_max)) {
      const std::string place = key + "[" + std::to_string(into.size()) + "]";
      note(place, table->source());
      emulation change;
      read_fields(*table, place, "host.emulate", emulation_fields(), change);
      into.push_back(change);
    }
  }

  parse_result& result_;
  broken_fields broken_;
};

} // namespace

parse_result parse_cluster_text(const std::string& text, const std::string& path) {
  parse_result result;
  result.file.path = path;
  try {
    const toml::table document = toml::parse(std::string_view(text), std::string_view(path));
    document_reader(result).read(document);
  } catch (const toml::parse_error& error) {
    const auto place = to_position(error.source().begin);
    result.errors.push_back({path, place.line, place.column, std::string(error.description())});
  }
  std::stable_sort(result.errors.begin(), result.errors.end(), [](const auto& left, const auto& right) {
    return std::pair(left.line, left.column) < std::pair(right.line, right.column);
  });
  if (result.errors.size() > errors_max)
    result.errors.resize(errors_max);
  return result;
}

parse_result read_cluster_file(const std::string& path) {
  const auto failed = [&](const std::string& message) {
    parse_result result;
    result.file.path = path;
    result.errors.push_back({path, 0, 0, message});
    return result;
  };
  std::ifstream stream(path, std::ios::binary);
  std::string text(file_bytes_max + 1, '\0');
  // Opening a directory succeeds, reading it fails.
  if (!stream || (!stream.read(text.data(), static_cast<std::streamsize>(text.size())) && stream.bad()) ||
      (stream.gcount() == 0 && !stream.eof()))
    return failed("the cluster file cannot be read; it must be a readable TOML file");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > file_bytes_max)
    return failed("the cluster file is larger than 8 MiB");
  return parse_cluster_text(text, path);
}

std::string set_field(cluster_file& file, const std::string& field, const std::string& text) {
  const auto fields = file_fields();
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.label() == field; });
  if (found == fields.end())
    return field + " is unknown";
  cluster_file changed = file;
  const target at = found->locate(changed);
  const bool is_text = std::holds_alternative<std::string*>(at) || std::holds_alternative<enumeration>(at);
  try {
    const toml::table parsed = toml::parse("value = " + (is_text ? quoted(text) : text));
    if (const std::string wrong = read_value(*found, changed, *parsed.get("value")); !wrong.empty())
      return field + " " + wrong;
  } catch (const toml::parse_error&) {
    return field + " is " + text + "; it must be " + allowed_text(*found);
  }
  std::vector<file_error> errors;
  validate(changed, {}, errors);
  if (!errors.empty())
    return errors.front().message;
  file = std::move(changed);
  return "";
}

} // namespace dynamix::cluster
