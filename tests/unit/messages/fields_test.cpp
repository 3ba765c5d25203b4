// The rows of messages/fields.def against the schema, and what each of them promises, for every field there is.

#include "messages/validation.hpp"
#include "tests/unit/messages/filled.hpp"
#include "tests/unit/messages/unchecked.hpp"

#include <capnp/schema.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>

namespace dynamix::messages {
namespace {

using testing::StartsWith;

/// "rtt_p50_seconds" of "rttP50Seconds".
std::string snake_case(const std::string& name) {
  std::string result;
  for (const char letter : name) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0)
      result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return result;
}

/// What of `list` a schema can have been given since its release: not what is retired.
template <class List>
std::vector<std::string> names_in(const List& list) {
  std::vector<std::string> names;
  for (const auto one : list)
    if (const auto name = snake_case(one.getProto().getName().cStr()); !name.starts_with("obsolete_"))
      names.push_back(name);
  return names;
}

template <class T>
std::vector<std::string> rows_of() {
  std::vector<std::string> names;
  T value;
  for_each_field(value, [&names](const char* name, const auto&) { names.emplace_back(name); });
  return names;
}

template <class T>
std::vector<std::string> enumerators_of() {
  std::vector<std::string> names;
  for (const auto& one : names_of<T>::table) {
    // Nobody sends `unspecified`, so most enums have none.
    if (names.empty() && static_cast<int>(one.value) == 1)
      names.emplace_back("unspecified");
    EXPECT_EQ(names.size(), static_cast<std::size_t>(one.value)) << one.name;
    names.emplace_back(one.name);
  }
  return names;
}

TEST(Rows, NameEveryFieldOfTheSchemaInItsOrder) {
#define STRUCT(type, Name)                                                                                             \
  EXPECT_EQ(rows_of<type>(), names_in(capnp::Schema::from<schema::Name>().getFields())) << #Name;
#include "messages/fields.def"
}

TEST(Rows, NameEveryEnumerantOfTheSchemaByItsNumber) {
#define ENUM(type, Name)                                                                                               \
  EXPECT_EQ(enumerators_of<type>(), names_in(capnp::Schema::from<schema::Name>().getEnumerants())) << #Name;
#include "messages/fields.def"
}

TEST(Rows, NameEveryArmOfTheEnvelopeInItsOrder) {
  const std::vector<std::string> kinds = {
      "unset",
#define MESSAGE(type, Schema) #type,
#include "messages/fields.def"
  };
  EXPECT_EQ(kinds, names_in(capnp::Schema::from<schema::Envelope>().getFields()));
}

TEST(Rows, CallTheFieldOfTheirName) {
  // A row has the name twice, for C++ and for the schema's accessors.
#define FIELD(type, name, Name, rule, ...) EXPECT_EQ(snake_case(#Name), "_" #name);
#include "messages/fields.def"
}

TEST(Rows, BringEveryFieldBackFromTheWire) {
  for (const auto& value : filled_messages()) {
    const auto encoded = encode(value);
    ASSERT_TRUE(encoded) << kind_name(value) << ": " << encoded.error().text;
    const auto decoded = decode(*encoded);
    ASSERT_TRUE(decoded) << kind_name(value) << ": " << decoded.error().text;
    EXPECT_TRUE(*decoded == value) << kind_name(value);
  }
}

using refused = std::function<void(const std::string& path)>;

/// Sets `field` to `wrong` for the time of one check.
template <class T>
void try_wrong(T& field, const std::string& path, const refused& check, T wrong) {
  std::swap(field, wrong);
  check(path);
  std::swap(field, wrong);
}

void break_field(bool&, no_rule, const std::string&, const refused&) {}

template <class T>
requires std::is_enum_v<T>
void break_field(T& field, no_rule, const std::string& path, const refused& check) {
  const auto last = static_cast<int>(std::rbegin(names_of<T>::table)->value);
  try_wrong(field, path + " is unknown", check, static_cast<T>(last + 1));
  if (static_cast<int>(std::begin(names_of<T>::table)->value) > 0)
    try_wrong(field, path + " is unknown", check, static_cast<T>(0));
}

template <class T>
void break_field(T& field, const range_rule<T>& rule, const std::string& path, const refused& check) {
  using limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    for (const auto wrong : {limits::quiet_NaN(), limits::infinity(), -limits::infinity()})
      try_wrong(field, path + " = ", check, wrong);
    if (rule.low > limits::lowest())
      try_wrong(field, path + " = ", check, std::nextafter(rule.low, limits::lowest()));
    if (!rule.caps)
      try_wrong(field, path + " = ", check, std::nextafter(rule.high, limits::max()));
  } else {
    if (rule.low > limits::lowest())
      try_wrong(field, path + " = ", check, static_cast<T>(rule.low - 1));
    if (rule.high < limits::max())
      try_wrong(field, path + " = ", check, static_cast<T>(rule.high + 1));
  }
}

void break_field(std::string& field, const text_rule& rule, const std::string& path, const refused& check) {
  try_wrong(field, path + " length", check, std::string(rule.high + 1, 'x'));
  for (const char* wrong : {"broken \xc3", "\x7f", "\xc2\x80", "\xed\xa0\x80", "\x1b[2J"})
    try_wrong(field, path, check, std::string(wrong));
  if (rule.low > 0)
    try_wrong(field, path + " length", check, std::string());
  if (!rule.lines)
    try_wrong(field, path + " holds control characters", check, std::string("new\nline"));
}

template <class T>
void break_rows(T& value, const std::string& prefix, const refused& check);

template <class T>
requires std::is_class_v<T>
void break_field(T& field, no_rule, const std::string& path, const refused& check) {
  break_rows(field, path + ".", check);
}

template <class T>
void break_field(std::vector<T>& field, const list_rule& rule, const std::string& path, const refused& check) {
  auto many = field;
  many.resize(rule.high + 1, field.empty() ? T{} : field[0]);
  try_wrong(field, path + " size", check, many);
  if (rule.low > 0)
    try_wrong(field, path + " size", check, {});
  if (field.empty())
    return;
  auto twice = field;
  twice.push_back(field[0]);
  if (rule.rising)
    try_wrong(field, path, check, twice);
  if constexpr (std::is_same_v<T, float>)
    try_wrong(field, path + " holds numbers that are not finite", check, {NAN});
  else if constexpr (std::is_same_v<T, std::string>)
    break_field(field[0], rules_for<std::string>::key, path + "[0]", check);
  else if constexpr (std::is_class_v<T>)
    break_rows(field[0], path + "[0].", check);
}

template <class T>
void break_rows(T& value, const std::string& prefix, const refused& check) {
  for_each_row(
      value, [&](const char* name, auto& field, const auto& rule) { break_field(field, rule, prefix + name, check); });
}

template <class T>
class RowsOf : public testing::Test {};

using every_message = testing::Types<
#define MESSAGE(type, Schema) type,
#include "messages/fields.def"
    window_report>;

TYPED_TEST_SUITE(RowsOf, every_message);

TYPED_TEST(RowsOf, RefuseOnBothSidesWhateverTheirRulesForbid) {
  auto value = filled<TypeParam>();
  const std::string kind(kind_name(any_message(value)));
  break_rows(value, "", [&](const std::string& path) {
    const auto encoded = encode(value);
    ASSERT_FALSE(encoded) << path << " was encoded";
    EXPECT_THAT(encoded.error().text, StartsWith(path));
    const auto decoded = decode(encode_unchecked(value));
    ASSERT_FALSE(decoded) << path << " was decoded";
    EXPECT_EQ(decoded.error().code, codec_code::invalid_field) << decoded.error().text;
    EXPECT_THAT(decoded.error().text, StartsWith(kind + ": " + path));
  });
}

/// `visit(path, field, rule)` for each field that caps.
template <class T, class Visit>
void visit_capped(T& value, const std::string& prefix, const Visit& visit) {
  for_each_row(value, [&]<class Field, class Rule>(const char* name, Field& field, const Rule& rule) {
    if constexpr (std::is_same_v<Rule, no_rule>) {
      if constexpr (std::is_class_v<Field>)
        visit_capped(field, prefix + name + ".", visit);
    } else if constexpr (std::is_floating_point_v<Field>) {
      if (rule.caps)
        visit(prefix + name, field, rule.high);
    } else if constexpr (std::is_same_v<Rule, list_rule>) {
      if constexpr (std::is_class_v<typename Field::value_type> &&
                    !std::is_same_v<typename Field::value_type, std::string>)
        for (auto& one : field)
          visit_capped(one, prefix + name + "[].", visit);
    }
  });
}

TYPED_TEST(RowsOf, BringWhatAnHonestHostMayExceedToTheEndOfItsRange) {
  auto said = filled<TypeParam>();
  visit_capped(said, "", [](const std::string&, auto& field, auto high) {
    field = std::numeric_limits<std::remove_cvref_t<decltype(field)>>::max();
    ASSERT_GT(field, high);
  });
  const auto encoded = encode(said);
  ASSERT_TRUE(encoded) << encoded.error().text;
  const auto decoded = decode(*encoded);
  ASSERT_TRUE(decoded) << decoded.error().text;
  auto taken = std::get<TypeParam>(*decoded);
  visit_capped(taken, "", [](const std::string& path, auto& field, auto high) { EXPECT_EQ(field, high) << path; });
}

TEST(Names, AreThoseOfTheEnumerators) {
  EXPECT_EQ(name_of(signal_source::unprivileged), "unprivileged");
  EXPECT_EQ(from_name<signal_source>("ebpf"), signal_source::ebpf);
  EXPECT_EQ(from_name<signal_source>("nothing of ours"), std::nullopt);
  EXPECT_EQ(name_of(static_cast<signal_source>(99)), "");
}

} // namespace
} // namespace dynamix::messages
