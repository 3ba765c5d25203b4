#include "cluster/value_reader.hpp"

namespace dynamix::cluster {
namespace {

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t substituted = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

} // namespace

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

std::string suggestion(std::string_view wrong, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const auto name : names)
    if (const auto distance = edit_distance(wrong.substr(0, 64), name); distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  return best.empty() ? "" : "did you mean " + quoted(best) + "? ";
}

std::string shown(const std::string& value) {
  std::string text = value.substr(0, 60);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return quoted(text) + (value.size() > 60 ? "..." : "");
}

} // namespace dynamix::cluster
