#include "simulator/toml_section.hpp"

#include "cluster/value_reader.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace dynamix::simulator {
namespace {

constexpr std::size_t file_bytes_max = 1U << 20;
constexpr std::size_t text_bytes_max = 1000;
constexpr std::size_t numbers_max = 4096;

/// Empty and false where the file cannot be read.
bool read_text(const std::string& path, std::string& text) {
  std::ifstream stream(path, std::ios::binary);
  text.assign(file_bytes_max + 1, '\0');
  // Opening a directory succeeds, reading it fails.
  if (!stream || (!stream.read(text.data(), static_cast<std::streamsize>(text.size())) && stream.bad()) ||
      (stream.gcount() == 0 && !stream.eof()))
    return false;
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text.size() <= file_bytes_max;
}

bool is_plain(const std::string& text) {
  return !text.empty() && text.size() <= text_bytes_max &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 32 || c == 127; });
}

} // namespace

toml_section::toml_section(const std::string& path, std::string_view section, std::vector<cluster::file_error>& errors)
    : path_(path), section_(section), errors_(errors) {
  std::string text;
  if (!read_text(path, text)) {
    errors_.push_back({path, 0, 0, "cannot be read; it must be a TOML file of at most 1 MiB"});
    return;
  }
  try {
    document_ = toml::parse(std::string_view(text), std::string_view(path));
  } catch (const toml::parse_error& error) {
    complain_at(error.source().begin, std::string(error.description()));
    return;
  }
  const auto* node = document_.get(section);
  table_ = node == nullptr ? nullptr : node->as_table();
  if (table_ == nullptr)
    complain_at(node == nullptr ? toml::source_position{1, 1} : node->source().begin,
                "there is no section [" + section_ + "]");
  for (const auto& [key, value] : document_)
    if (key.str() != section && table_ != nullptr)
      complain_at(key.source().begin, std::string(key.str()) + " is unknown; the file has [" + section_ + "] only");
}

void toml_section::complain_at(const toml::source_position& place, const std::string& message) {
  errors_.push_back({path_, place.line, place.column, message});
}

void toml_section::complain(std::string_view name, const std::string& message) {
  const auto* node = table_ == nullptr ? nullptr : table_->get(name);
  if (table_ != nullptr)
    complain_at(node == nullptr ? table_->source().begin : node->source().begin,
                section_ + "." + std::string(name) + " " + message);
}

void toml_section::wrong_type(std::string_view name, const toml::node& node, const std::string& wanted) {
  complain(name, "is " + cluster::type_text(node) + "; it must be " + wanted);
}

const toml::node* toml_section::find(std::string_view name, bool required) {
  known_.push_back(name);
  const auto* node = table_ == nullptr ? nullptr : table_->get(name);
  if (node == nullptr && required)
    complain(name, "is missing");
  return node;
}

void toml_section::text(std::string_view name, std::string& into) {
  const auto* node = find(name, true);
  if (node == nullptr)
    return;
  const auto value = node->value_exact<std::string>();
  if (!value)
    return wrong_type(name, *node, "a string");
  if (!is_plain(*value))
    return complain(name, "is " + cluster::shown(*value) + "; it must be one line of 1 to 1000 characters");
  into = *value;
}

void toml_section::number(std::string_view name, double& into, const cluster::range& allowed) {
  take_number(name, find(name, true), into, allowed);
}

void toml_section::optional_number(std::string_view name, double& into, const cluster::range& allowed) {
  take_number(name, find(name, false), into, allowed);
}

void toml_section::take_number(std::string_view name, const toml::node* node, double& into,
                               const cluster::range& allowed) {
  if (node == nullptr)
    return;
  if (!node->is_number())
    return wrong_type(name, *node, "a number in " + to_string(allowed));
  const double value = *node->value<double>();
  if (!allowed.contains(value))
    return complain(name, "is " + cluster::number_text(value) + "; it must be in " + to_string(allowed));
  into = value;
}

void toml_section::optional_count(std::string_view name, std::uint32_t& into, const cluster::range& allowed) {
  const auto* node = find(name, false);
  if (node == nullptr)
    return;
  const auto value = node->value_exact<std::int64_t>();
  if (!value)
    return wrong_type(name, *node, "an integer in " + to_string(allowed));
  if (!allowed.contains(static_cast<double>(*value)))
    return complain(name, "is " + std::to_string(*value) + "; it must be in " + to_string(allowed));
  into = static_cast<std::uint32_t>(*value);
}

void toml_section::numbers(std::string_view name, std::vector<double>& into, const cluster::range& allowed) {
  const auto* node = find(name, true);
  if (node == nullptr)
    return;
  const auto* list = node->as_array();
  const auto wanted = "a list of 1 to " + std::to_string(numbers_max) + " numbers in " + to_string(allowed);
  if (list == nullptr)
    return wrong_type(name, *node, wanted);
  if (list->empty() || list->size() > numbers_max)
    return complain(name, "has " + std::to_string(list->size()) + " entries; it must be " + wanted);
  std::vector<double> values;
  for (const auto& each : *list) {
    const auto value = each.value<double>();
    if (!each.is_number() || !allowed.contains(*value))
      return complain_at(each.source().begin,
                         section_ + "." + std::string(name) + " holds " +
                             (each.is_number() ? cluster::number_text(*value) : cluster::type_text(each)) +
                             "; it must be " + wanted);
    values.push_back(*value);
  }
  into = std::move(values);
}

void toml_section::finish() {
  if (table_ != nullptr)
    for (const auto& [key, value] : *table_)
      if (std::ranges::find(known_, key.str()) == known_.end())
        complain_at(key.source().begin, section_ + "." + std::string(key.str()) + " is unknown; " +
                                            cluster::suggestion(key.str(), known_) + "the section has " +
                                            cluster::quoted_list(known_));
  std::ranges::stable_sort(errors_, {}, [](const auto& error) { return std::pair(error.line, error.column); });
}

} // namespace dynamix::simulator
