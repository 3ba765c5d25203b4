#include "settings/toml_reader.hpp"

#include "settings/nesting.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <fstream>
#include <optional>

namespace dynamix::settings {
namespace {

constexpr std::size_t errors_max = 20;
constexpr std::string_view automatic = "auto";

position to_position(const toml::source_position& from) {
  return {from.line, from.column};
}

std::string type_text(const toml::node& node) {
  switch (node.type()) {
  case toml::node_type::table:
    return "a table";
  case toml::node_type::array:
    return "a list";
  case toml::node_type::string:
    return "a string";
  case toml::node_type::integer:
    return "an integer";
  case toml::node_type::floating_point:
    return "a number with a fraction";
  case toml::node_type::boolean:
    return "a boolean";
  default:
    return "a date or time";
  }
}

/// One value against its field: what is wrong, without the field's name; empty when it was taken over.
class value_reader {
public:
  value_reader(const bound_field& of, const toml::node& node) : field_(of), node_(node) {}

  std::string operator()(bool* into) const {
    const auto value = node_.value_exact<bool>();
    if (!value)
      return wrong_type();
    *into = *value;
    return "";
  }
  std::string operator()(std::optional<bool>* into) const {
    if (node_.value_exact<std::string>() == automatic)
      into->reset();
    else if (const auto value = node_.value_exact<bool>())
      *into = *value;
    else
      return wrong_type();
    return "";
  }
  std::string operator()(double* into) const { return read_element(node_, *into, allowed_text(field_)); }
  std::string operator()(std::string* into) const { return read_element(node_, *into, allowed_text(field_)); }
  std::string operator()(enumeration into) const { return read_choice(node_, *into.value); }
  template <class Integer>
  requires std::is_integral_v<Integer> std::string operator()(Integer* into) const {
    return read_element(node_, *into, allowed_text(field_));
  }
  template <class Element>
  std::string operator()(std::vector<Element>* into) const {
    return read_list<Element>([this](const toml::node& node,
                                     Element& element) { return read_element(node, element, element_text<Element>()); },
                              [into](std::vector<Element> elements) { *into = std::move(elements); });
  }
  std::string operator()(enumeration_list into) const {
    return read_list<std::uint8_t>(
        [this](const toml::node& node, std::uint8_t& number) { return read_choice(node, number); },
        [into](const std::vector<std::uint8_t>& numbers) { into.assign(into.list, numbers); });
  }

  /// Of the last value that was wrong: a list's entry or the whole.
  position place() const { return to_position((wrong_ == nullptr ? node_ : *wrong_).source().begin); }

private:
  std::string wrong_type() const { return fmt::format("is {}; it must be {}", type_text(node_), allowed_text(field_)); }

  template <class Element>
  std::string element_text() const {
    if constexpr (std::is_same_v<Element, std::string>)
      return "a string";
    else
      return (std::is_integral_v<Element> ? "an integer in " : "a number in ") + to_string(field_.allowed);
  }

  template <class Element, class Read, class Take>
  std::string read_list(Read read, Take take) const {
    const auto* list = node_.as_array();
    std::vector<Element> elements;
    if (list == nullptr && field_.entries.bare && node_.is_string()) {
      if (auto wrong = read(node_, elements.emplace_back()); !wrong.empty())
        return wrong;
    } else if (list == nullptr) {
      return wrong_type();
    } else {
      const auto& [least, most, bare] = field_.entries;
      if (most > 0 && (list->size() < least || list->size() > most))
        return fmt::format("has {} entries; it must have {} to {}", list->size(), least, most);
      for (const auto& node : *list)
        if (const auto wrong = read(node, elements.emplace_back()); !wrong.empty()) {
          wrong_ = &node;
          return "holds an entry that " + wrong;
        }
    }
    take(std::move(elements));
    return "";
  }

  std::string read_element(const toml::node& node, double& into, const std::string& wanted) const {
    const auto value = node.value<double>(); // an integer is a number too
    if (!value || !node.is_number())
      return fmt::format("is {}; it must be {}", type_text(node), wanted);
    if (!field_.allowed.contains(*value))
      return fmt::format("is {}; it must be in {}", number_text(*value), to_string(field_.allowed));
    into = *value;
    return "";
  }
  template <class Integer>
  requires std::is_integral_v<Integer> std::string read_element(const toml::node& node, Integer& into,
                                                                const std::string& wanted)
  const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value)
      return fmt::format("is {}; it must be {}", type_text(node), wanted);
    if (!field_.allowed.contains(static_cast<double>(*value)))
      return fmt::format("is {}; it must be in {}", *value, to_string(field_.allowed));
    into = static_cast<Integer>(*value);
    return "";
  }
  std::string read_element(const toml::node& node, std::string& into, const std::string& wanted) const {
    const auto value = node.value_exact<std::string>();
    if (!value)
      return fmt::format("is {}; it must be {}", type_text(node), wanted);
    const auto& choices = field_.choices;
    if (!choices.empty() && std::ranges::find(choices, *value) == choices.end())
      return no_choice(*value);
    if (field_.rule != nullptr && !field_.rule->accepts(*value))
      return fmt::format("is {}; it must be {}", shown(*value), field_.rule->words);
    into = *value;
    return "";
  }
  std::string read_choice(const toml::node& node, std::uint8_t& into) const {
    const auto value = node.value_exact<std::string>();
    if (!value)
      return fmt::format("is {}; it must be {}", type_text(node), allowed_text(field_));
    const auto found = std::ranges::find(field_.choices, *value);
    if (found == field_.choices.end())
      return no_choice(*value);
    into = static_cast<std::uint8_t>(found - field_.choices.begin());
    return "";
  }
  std::string no_choice(const std::string& value) const {
    return fmt::format("is {}; {}it must be {}{}", shown(value), suggestion(value, field_.choices),
                       field_.choices.size() == 1 ? "" : "one of ", quoted_list(field_.choices));
  }

  const bound_field& field_;
  const toml::node& node_;
  mutable const toml::node* wrong_ = nullptr;
};

bool wants_text(const target& at) {
  return std::holds_alternative<std::string*>(at) || std::holds_alternative<enumeration>(at);
}

/// a, b -> ["a", "b"]
std::string as_list(const std::string& text, bool quote) {
  std::string list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto entry = text.substr(begin, end - begin);
    list += (list.empty() ? "" : ", ") + (quote ? quoted(entry) : entry);
    begin = end + 1;
  }
  return "[" + list + "]";
}

std::string as_toml(const target& at, const std::string& text) {
  const bool texts =
      std::holds_alternative<std::vector<std::string>*>(at) || std::holds_alternative<enumeration_list>(at);
  const bool numbers =
      std::holds_alternative<std::vector<double>*>(at) || std::holds_alternative<std::vector<std::int32_t>*>(at);
  if ((texts || numbers) && !text.starts_with('['))
    return as_list(text, texts);
  const bool named = std::holds_alternative<std::optional<bool>*>(at) && text == automatic;
  return wants_text(at) || named ? quoted(text) : text;
}

} // namespace

struct toml_reader::document {
  toml::table root;
};

std::string to_string(const file_error& error) {
  return error.line == 0 ? fmt::format("{}: {}", error.file, error.message)
                         : fmt::format("{}:{}:{}: {}", error.file, error.line, error.column, error.message);
}

void arrange(std::vector<file_error>& errors) {
  std::ranges::stable_sort(errors, {}, [](const auto& each) { return std::pair(each.line, each.column); });
  if (errors.size() > errors_max)
    errors.resize(errors_max);
}

position find_position(const position_map& positions, const std::string& field) {
  for (std::string key = field;;) {
    if (const auto found = positions.find(key); found != positions.end())
      return found->second;
    const auto dot = key.rfind('.');
    if (dot == std::string::npos)
      return {};
    key.resize(dot);
  }
}

toml_reader::toml_reader(std::string noun, std::string path, std::string_view text)
    : noun_(std::move(noun)), path_(std::move(path)) {
  if (const auto place = find_deep_nesting(text)) {
    complain_at(*place, fmt::format("the {} is nested more than {} levels deep here", noun_, nesting_most));
    return;
  }
  try {
    document_ = std::make_unique<document>(document{toml::parse(text, std::string_view(path_))});
  } catch (const toml::parse_error& error) {
    complain_at(to_position(error.source().begin), std::string(error.description()));
  }
}

toml_reader toml_reader::open(std::string noun, const std::string& path, std::size_t bytes_max) {
  const auto failed = [&](const std::string& message) {
    toml_reader reader(noun, path, "");
    reader.document_.reset();
    reader.complain_at({}, message);
    return reader;
  };
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  // Opening a directory succeeds, reading it fails.
  if (!stream || (!stream.read(text.data(), static_cast<std::streamsize>(text.size())) && stream.bad()) ||
      (stream.gcount() == 0 && !stream.eof()))
    return failed(errno == ENOENT ? fmt::format("there is no such file; a {} is a TOML file", noun)
                                  : fmt::format("the {} cannot be read{}{}", noun, errno != 0 ? ": " : "",
                                                errno != 0 ? std::strerror(errno) : ""));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > bytes_max)
    return failed(fmt::format("the {} is larger than {} MiB", noun, bytes_max >> 20U));
  return {std::move(noun), path, text};
}

toml_reader::toml_reader(toml_reader&&) noexcept = default;
toml_reader::~toml_reader() = default;

bool toml_reader::readable() const {
  return document_ != nullptr;
}

void toml_reader::complain_at(const position& place, const std::string& message) {
  errors_.push_back({path_, place.line, place.column, message});
}

void toml_reader::complain(const std::string& field, const std::string& message) {
  complain_at(where(field), message);
}

void toml_reader::allow(std::span<const std::string_view> names) {
  table root;
  root.node_ = &document_->root;
  refuse_unknown("", root, names);
}

namespace {

/// A number, a word or a truth value as a file has it; empty for anything else.
std::string plain_text(const toml::node& node) {
  if (const auto truth = node.value_exact<bool>())
    return *truth ? "true" : "false";
  if (const auto number = node.value<double>())
    return fmt::format("{}", *number);
  return node.value_exact<std::string>().value_or("");
}

} // namespace

void toml_reader::refuse_unknown(std::string_view section, table from, std::span<const std::string_view> known) {
  const std::string owner = section.empty() ? "a " + noun_ : std::string(section);
  for (const auto& [key, node] : *static_cast<const toml::table*>(from.node_))
    if (std::ranges::find(known, key.str()) == known.end()) {
      const auto label = fmt::format("{}{}{}", section, section.empty() ? "" : ".", key.str());
      const auto gone = std::ranges::find(retired_, label, &retired_field::label);
      if (const auto text = plain_text(node);
          gone != retired_.end() && !text.empty() && std::ranges::find(gone->unused, text) != gone->unused.end())
        continue;
      complain_at(to_position(key.source().begin),
                  gone != retired_.end() ? fmt::format("{} is gone: {}", label, gone->instead)
                                         : fmt::format("{} is unknown; {}{} has {}", label,
                                                       suggestion(key.str(), known), owner, quoted_list(known)));
    }
}

bool toml_reader::read_only_section(std::string_view name, const std::vector<bound_field>& fields) {
  if (!readable())
    return false;
  allow({&name, 1});
  if (document_->root.contains(name))
    read_section(name, fields);
  else
    complain_at({1, 1}, fmt::format("there is no section [{}]", name));
  return errors_.empty();
}

void toml_reader::read_section(std::string_view name, const std::vector<bound_field>& fields) {
  static const toml::table absent;
  const toml::node* node = document_->root.get(name);
  table found;
  found.node_ = node == nullptr ? &absent : node->as_table();
  const std::string key(name);
  if (node != nullptr)
    positions_[key] = to_position(node->source().begin);
  if (found.node_ != nullptr)
    return read_table(found, key, name, fields, {});
  distrust(key);
  complain(key, fmt::format("{0} is {1}; it must be a table, [{0}]", key, type_text(*node)));
}

void toml_reader::read_table(table from, const std::string& key, std::string_view section,
                             const std::vector<bound_field>& fields, std::initializer_list<std::string_view> below) {
  const auto& values = *static_cast<const toml::table*>(from.node_);
  if (values.source().begin)
    positions_[key] = to_position(values.source().begin);
  std::vector<std::string_view> known;
  for (const auto& each : fields) {
    known.push_back(each.name);
    const auto place = fmt::format("{}.{}", key, each.name);
    const toml::node* node = values.get(each.name);
    std::string wrong;
    position at = where(key);
    if (node != nullptr) {
      positions_[place] = to_position(node->source().begin);
      const value_reader reader(each, *node);
      wrong = std::visit(reader, each.at);
      at = reader.place();
    } else if (each.presence == presence::required) {
      wrong = "is missing; it must be " + allowed_text(each);
    }
    if (wrong.empty())
      continue;
    distrust(place);
    complain_at(at, fmt::format("{} {}", each.label(), wrong));
  }
  known.insert(known.end(), below.begin(), below.end());
  refuse_unknown(section, from, known);
}

std::vector<toml_reader::table> toml_reader::tables(const std::string& name, std::size_t most) {
  table root;
  root.node_ = &document_->root;
  return tables(root, name, name, name, most);
}

std::vector<toml_reader::table> toml_reader::tables(table parent, std::string_view name, const std::string& key,
                                                    const std::string& header, std::size_t most) {
  const toml::node* node = static_cast<const toml::table*>(parent.node_)->get(name);
  if (node == nullptr)
    return {};
  positions_[key] = to_position(node->source().begin);
  const auto* list = node->as_array();
  std::vector<table> found;
  if (list == nullptr || !std::ranges::all_of(*list, [](const auto& each) { return each.is_table(); })) {
    distrust(key);
    complain(key, fmt::format("{0} is {1}{2}; it must be tables, each under [[{0}]]", header, type_text(*node),
                              list == nullptr ? "" : " with elements that are not tables"));
    return found;
  }
  if (list->size() > most) {
    distrust(key);
    complain_at(to_position((*list)[most].source().begin),
                fmt::format("there are {} [[{}]]; there may be {}", list->size(), header, most));
    return found;
  }
  for (const auto& each : *list)
    found.emplace_back().node_ = each.as_table();
  return found;
}

std::vector<file_error> toml_reader::finish() {
  arrange(errors_);
  return std::move(errors_);
}

std::string read_value(const bound_field& of, const std::string& text) {
  try {
    const auto line = "value = " + as_toml(of.at, text);
    const toml::table parsed = find_deep_nesting(line) ? toml::table() : toml::parse(line);
    if (parsed.size() == 1)
      return std::visit(value_reader(of, *parsed.get("value")), of.at);
  } catch (const toml::parse_error&) { // as below
  }
  const bool plain = !wants_text(of.at) && is_line(text, 60);
  return fmt::format("is {}; it must be {}", plain ? text : shown(text), allowed_text(of));
}

} // namespace dynamix::settings
