/// What a cluster file says, for people and programs: the plan, the resolved file, the documentation's tables.

#include "cluster/fields.hpp"
#include "cluster/text_table.hpp"
#include "cluster/tree_plan.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <sstream>
#include <utility>

namespace dynamix::cluster {
namespace {

using json = nlohmann::ordered_json;

std::vector<std::pair<std::string, std::uint32_t>> timeout_values(std::uint32_t detect_ms) {
  const timeouts derived = derive_timeouts(detect_ms);
  return {{"heartbeat_interval_ms", derived.heartbeat_interval_ms},
          {"connection_timeout_ms", derived.connection_timeout_ms},
          {"probe_timeout_ms", derived.probe_timeout_ms},
          {"request_timeout_ms", derived.request_timeout_ms},
          {"gather_timeout_ms", derived.gather_timeout_ms},
          {"beat_interval_ms", derived.beat_interval_ms},
          {"silence_ms", derived.silence_ms},
          {"rejoin_timeout_ms", derived.rejoin_timeout_ms},
          {"stall_timeout_ms", derived.stall_timeout_ms},
          {"collective_timeout_ms", derived.collective_timeout_ms},
          {"join_timeout_ms", derived.join_timeout_ms},
          {"shutdown_timeout_ms", derived.shutdown_timeout_ms}};
}

std::string hex(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  const std::string digits = text.str();
  return std::string(16 - digits.size(), '0') + digits;
}

std::string slowdown_text(const host& of) {
  if (!of.has(role::worker))
    return "-";
  const host_entry entry = to_entry(of);
  std::string text = number_text(entry.compute_slowdown);
  for (const auto& change : entry.host.emulate)
    text += ", " + number_text(change.compute_slowdown) + " from " + number_text(change.at_seconds) + " s";
  return text;
}

std::string roles_text(const host& of) {
  std::string text;
  for (const auto each : of.roles)
    text += (text.empty() ? "" : ", ") + std::string(to_string(each));
  return text;
}

std::string hosts_table(const cluster_file& file) {
  std::vector<std::vector<std::string>> rows = {{"host", "address", "roles", "rank", "compute slow-down"}};
  std::size_t rank = 0;
  for (const auto& each : file.hosts)
    rows.push_back({each.name, each.address + ":" + std::to_string(each.port), roles_text(each),
                    each.has(role::worker) ? std::to_string(rank++) : "-", slowdown_text(each)});
  return text_table(rows, 2);
}

/// TOML values of the file are JSON values too.
template <class Record>
json to_json(std::span<const field<Record>> fields, const Record& record) {
  json object;
  for (const auto& each : fields)
    object[std::string(each.name)] = json::parse(value_text(each, record));
  return object;
}

template <class Record>
void append_toml(std::string& text, std::span<const field<Record>> fields, const Record& record) {
  for (const auto& each : fields)
    text += std::string(each.name) + " = " + value_text(each, record) + "\n";
}

/// The fields of one section after the other.
std::vector<std::span<const field<cluster_file>>> sections() {
  std::vector<std::span<const field<cluster_file>>> found;
  const auto fields = file_fields();
  for (std::size_t begin = 0; begin < fields.size();) {
    std::size_t end = begin;
    while (end < fields.size() && fields[end].section == fields[begin].section)
      ++end;
    found.push_back(fields.subspan(begin, end - begin));
    begin = end;
  }
  return found;
}

template <class Record>
void append_markdown(std::string& text, const std::string& header, std::span<const field<Record>> fields) {
  const Record defaults;
  text += "### `" + header + "`\n\n| field | default | allowed | meaning |\n|---|---|---|---|\n";
  for (const auto& each : fields)
    text += "| `" + std::string(each.name) + "` | " +
            (each.required ? "required" : "`" + value_text(each, defaults) + "`") + " | " + allowed_text(each) + " | " +
            std::string(each.doc) + " |\n";
  text += "\n";
}

} // namespace

std::string to_toml(const cluster_file& file) {
  std::string text;
  for (const auto& section : sections()) {
    text += (text.empty() ? "[" : "\n[") + std::string(section.front().section) + "]\n";
    append_toml(text, section, file);
  }
  for (const auto& each : file.hosts) {
    const host_entry entry = to_entry(each);
    text += "\n[[host]]\n";
    append_toml(text, host_fields(), entry);
    for (const auto& change : entry.host.emulate) {
      text += "\n[[host.emulate]]\n";
      append_toml(text, emulation_fields(), change);
    }
  }
  return text;
}

std::string describe_fields_markdown() {
  std::string text;
  for (const auto& section : sections())
    append_markdown(text, "[" + std::string(section.front().section) + "]", section);
  append_markdown(text, "[[host]]", host_fields());
  append_markdown(text, "[[host.emulate]]", emulation_fields());
  text.pop_back();
  return text;
}

std::string describe_plan(const cluster_file& file) {
  const cluster_file defaults;
  std::string text = "cluster " + file.name + "  (" + file.path + ", digest " + hex(file.digest()) + ")\n\nhosts\n";
  text += hosts_table(file);
  for (const auto& section : sections()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& each : section) {
      const std::string value = value_text(each, file);
      const std::string standard = value_text(each, defaults);
      rows.push_back(
          {std::string(each.name), value, each.required || value == standard ? "" : "(default " + standard + ")"});
    }
    text += "\n" + std::string(section.front().section) + "\n" + text_table(rows, 2, heading::absent);
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : timeout_values(file.detect_ms))
    rows.push_back({name, std::to_string(value)});
  text += "\ntime-outs from detect_ms\n" + text_table(rows, 2, heading::absent);
  return text + "\narbitrators\n" + describe_tree(plan_tree(file));
}

std::string describe_plan_json(const cluster_file& file) {
  json plan;
  plan["path"] = file.path;
  plan["digest"] = hex(file.digest());
  for (const auto& section : sections())
    plan[std::string(section.front().section)] = to_json(section, file);
  std::size_t rank = 0;
  for (const auto& each : file.hosts) {
    const host_entry entry = to_entry(each);
    json host = to_json(host_fields(), entry);
    host["rank"] = each.has(role::worker) ? json(rank++) : json(nullptr);
    host["emulate"] = json::array();
    for (const auto& change : entry.host.emulate)
      host["emulate"].push_back(to_json(emulation_fields(), change));
    plan["hosts"].push_back(host);
  }
  for (const auto& [name, value] : timeout_values(file.detect_ms))
    plan["timeouts"][name] = value;
  plan["tree"] = json::parse(describe_tree_json(plan_tree(file)));
  return plan.dump(2);
}

} // namespace dynamix::cluster
