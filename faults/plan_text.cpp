#include "faults/plan_fields.hpp"

namespace dynamix::faults {
namespace {

struct place_words {
  const cluster::range& allowed;

  std::string operator()(const double*) const { return "a number in " + to_string(allowed); }
  std::string operator()(const std::uint64_t*) const { return "an integer in " + to_string(allowed); }
  std::string operator()(const std::uint32_t*) const { return "an integer in " + to_string(allowed); }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::string*) const { return "a string"; }
  std::string operator()(const std::vector<std::string>*) const { return "a string or a list of strings"; }
};

struct place_value {
  std::string operator()(const double* value) const { return *value < 0 ? "" : cluster::number_text(*value); }
  std::string operator()(const std::uint64_t* value) const { return *value == never ? "" : std::to_string(*value); }
  std::string operator()(const std::uint32_t* value) const { return std::to_string(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return value->empty() ? "" : "\"" + *value + "\""; }
  std::string operator()(const std::vector<std::string>*) const { return "required"; }
};

template <class Record>
std::string section_text(const std::string& heading, std::span<const plan_field<Record>> fields) {
  std::string text = "### `" + heading + "`\n\n| field | default | allowed | meaning |\n|---|---|---|---|\n";
  Record defaults;
  for (const auto& field : fields) {
    const auto place = field.locate(defaults);
    const auto value = std::visit(place_value{}, place);
    text += "| `" + std::string(field.name) + "` | " +
            (value.empty()         ? "none"
             : value == "required" ? value
                                   : "`" + value + "`") +
            " | " + std::visit(place_words{field.allowed}, place) + " | " + std::string(field.doc) + " |\n";
  }
  return text + "\n";
}

} // namespace

std::string describe_plan_markdown() {
  std::string text = section_text("[plan]", plan_fields()) + section_text("[limits]", limit_fields()) +
                     section_text("[[fault]]", rule_fields()) + "### Kinds\n\n| kind | what happens |\n|---|---|\n";
  for (const auto& row : fault_kinds)
    text += "| `" + std::string(row.name) + "` | " + std::string(row.doc) + " |\n";
  return text;
}

} // namespace dynamix::faults
