#include "messages/validation.hpp"

#include "messages/rules.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::messages {
namespace {

// What each type of field has to satisfy, by the rule of its row.

void check_field(checker&, const char*, bool, no_rule) {}

template <class T>
requires std::is_enum_v<T>
void check_field(checker& check, const char* name, T value, no_rule) {
  check.require(!name_of(value).empty(), name, "is unknown");
}

template <class T>
void check_field(checker& check, const char* name, T value, const range_rule<T>& rule) {
  check.range(name, value, rule.low, rule.high, rule.caps);
}

void check_field(checker& check, const char* name, const std::string& value, const text_rule& rule) {
  check.text(name, value, rule);
}

template <class T>
requires std::is_class_v<T>
void check_field(checker& check, const char* name, const T& value, no_rule) {
  check.nested(name, validate(value));
}

template <class T>
void check_elements(checker& check, const char* name, const std::vector<T>& value, bool by_rank) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (const auto fault = validate(value[i]); !fault.empty())
      return check.nested(element(name, i), fault);
    if constexpr (requires { value[i].rank; })
      if (by_rank && i > 0 && value[i].rank <= value[i - 1].rank)
        return check.require(false, element(name, i), "does not come in the order of ranks");
  }
}

void check_elements(checker&, const char*, const std::vector<std::uint8_t>&, bool) {}

void check_elements(checker& check, const char* name, const std::vector<std::uint32_t>& value, bool) {
  check.ranks(name, value);
}

void check_elements(checker& check, const char* name, const std::vector<float>& value, bool) {
  check.require(std::ranges::all_of(value, [](float one) { return std::isfinite(one); }), name,
                "holds numbers that are not finite");
}

void check_elements(checker& check, const char* name, const std::vector<std::string>& value, bool) {
  for (std::size_t i = 0; i < value.size(); ++i)
    check.text(element(name, i), value[i], rules_for<std::string>::key);
}

template <class T>
void check_field(checker& check, const char* name, const std::vector<T>& value, const list_rule& rule) {
  check.size(name, value.size(), rule.low, rule.high);
  check_elements(check, name, value, rule.rising);
}

} // namespace

template <class T>
std::string validate(const T& value) {
  checker check;
  for_each_row(value, [&check](const char* name, const auto& field, const auto& rule) {
    check_field(check, name, field, rule);
  });
  check_together(check, value);
  return check.take();
}

#define STRUCT(type, Schema) template std::string validate(const type& value);
#include "messages/fields.def"

} // namespace dynamix::messages
