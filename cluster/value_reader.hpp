#pragma once

/// One value of a TOML document against its field. Only cluster/parse.cpp, cluster/value_reader.cpp and, for its texts,
/// simulator/toml_section.cpp include this, and with it toml++.

#include "cluster/fields.hpp"

#include <toml++/toml.h>

#include <algorithm>

namespace dynamix::cluster {

std::string type_text(const toml::node& node);
/// "did you mean X? " for the nearest of `names`, when one is near; else empty.
std::string suggestion(std::string_view wrong, std::span<const std::string_view> names);
/// A value as a message shows it: quoted, short, and without control characters.
std::string shown(const std::string& value);

/// What is wrong with a value, without the field's name; empty when it was taken over.
template <class Record>
class value_reader {
public:
  value_reader(const field<Record>& of, const toml::node& node) : field_(of), node_(node) {}

  std::string operator()(bool* into) const {
    const auto value = node_.value_exact<bool>();
    if (!value)
      return wrong_type();
    *into = *value;
    return "";
  }
  std::string operator()(double* into) const {
    const auto value = node_.value<double>(); // an integer is a number too
    if (!value || !node_.is_number())
      return wrong_type();
    if (!field_.allowed.contains(*value))
      return out_of_range(number_text(*value));
    *into = *value;
    return "";
  }
  std::string operator()(std::string* into) const {
    const auto value = node_.value_exact<std::string>();
    if (!value)
      return wrong_type();
    const auto& choices = field_.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), *value) == choices.end())
      return no_choice(*value);
    if (field_.rule != nullptr && !field_.rule->accepts(*value))
      return "is " + shown(*value) + "; it must be " + allowed_text(field_);
    *into = *value;
    return "";
  }
  std::string operator()(enumeration into) const { return read_choice(node_, *into.value); }
  template <class Integer>
  requires std::is_integral_v<Integer> std::string operator()(Integer* into) const {
    return read_integer(node_, *into);
  }
  template <class Element>
  std::string operator()(std::vector<Element>* into) const {
    const auto* list = node_.as_array();
    if (list == nullptr)
      return wrong_type();
    std::vector<Element> elements;
    for (const auto& node : *list) {
      Element element{};
      std::string wrong;
      if constexpr (std::is_enum_v<Element>)
        wrong = read_choice(node, reinterpret_cast<std::uint8_t&>(element));
      else if constexpr (std::is_same_v<Element, std::string>)
        wrong = read_text(node, element);
      else
        wrong = read_integer(node, element);
      if (!wrong.empty())
        return "holds an entry that " + wrong;
      elements.push_back(element);
    }
    *into = std::move(elements);
    return "";
  }

private:
  std::string wrong_type() const { return "is " + type_text(node_) + "; it must be " + allowed_text(field_); }
  std::string out_of_range(const std::string& value) const {
    return "is " + value + "; it must be in " + to_string(field_.allowed);
  }
  std::string no_choice(const std::string& value) const {
    return "is " + shown(value) + "; " + suggestion(value, field_.choices) + "it must be " +
           (field_.choices.size() == 1 ? "" : "one of ") + quoted_list(field_.choices);
  }
  template <class Integer>
  std::string read_integer(const toml::node& node, Integer& into) const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value)
      return "is " + type_text(node) + "; it must be an integer in " + to_string(field_.allowed);
    if (!field_.allowed.contains(static_cast<double>(*value)))
      return out_of_range(std::to_string(*value));
    into = static_cast<Integer>(*value);
    return "";
  }
  std::string read_text(const toml::node& node, std::string& into) const {
    const auto value = node.value_exact<std::string>();
    if (!value)
      return "is " + type_text(node) + "; it must be a string";
    if (field_.rule != nullptr && !field_.rule->accepts(*value))
      return "is " + shown(*value) + "; it must be " + std::string(field_.rule->words);
    into = *value;
    return "";
  }
  std::string read_choice(const toml::node& node, std::uint8_t& into) const {
    const auto value = node.value_exact<std::string>();
    if (!value)
      return "is " + type_text(node) + "; it must be " + allowed_text(field_);
    const auto found = std::find(field_.choices.begin(), field_.choices.end(), *value);
    if (found == field_.choices.end())
      return no_choice(*value);
    into = static_cast<std::uint8_t>(found - field_.choices.begin());
    return "";
  }

  const field<Record>& field_;
  const toml::node& node_;
};

template <class Record>
std::string read_value(const field<Record>& of, Record& record, const toml::node& node) {
  return std::visit(value_reader<Record>(of, node), of.locate(record));
}

} // namespace dynamix::cluster
