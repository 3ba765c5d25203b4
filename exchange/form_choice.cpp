#include "exchange/form_choice.hpp"

#include "exchange/sketch.hpp"

#include <algorithm>

namespace dynamix::exchange {

namespace {

/// Another form must be faster by so much: predictions are not more exact, and to change costs some sums.
constexpr double clearly_faster = 1.1;
/// What was measured is out of date when the form in use takes so many times as long, or as little.
constexpr double out_of_date = 2;

std::size_t place_of(form how) {
  return static_cast<std::size_t>(how);
}

} // namespace

std::string_view name_of(form how) {
  constexpr std::array<std::string_view, 4> names = {"dense", "union", "gather", "lhc"};
  return names.at(place_of(how));
}

double bytes_of(form how, const form_load& load) {
  const double members = load.members;
  const double once = (members - 1) / members; // scattered or gathered; a ring does both
  const auto items = static_cast<double>(load.items);
  const auto item_bytes = static_cast<double>(load.item_floats * sizeof(float));
  const auto together = static_cast<double>(load.together);
  switch (how) {
  case form::union_of_items:
    return 2 * once * (items / 8 + together * item_bytes);
  case form::gather:
    return (members - 1) * static_cast<double>(load.longest) * (sizeof(std::uint32_t) + item_bytes);
  case form::lhc: { // without a sketch where there are few
    const auto cells = static_cast<double>(sketch_cells(load.together));
    return 2 * once * (items / 4 + item_bytes * (cells > 0 ? 2 * cells : together));
  }
  default:
    return 2 * once * items * item_bytes;
  }
}

std::optional<double> form_choice::predict(form how, const form_load& load) const {
  auto rate = seconds_a_byte_[place_of(how)];
  for (const auto& other : seconds_a_byte_)
    if (!seconds_a_byte_[place_of(how)] && other && (!rate || *other < *rate))
      rate = other;
  return rate ? std::optional(*rate * bytes_of(how, load)) : std::nullopt;
}

form form_choice::take(double seconds, const form_load& load) {
  auto& known = seconds_a_byte_[place_of(now_)];
  const double newest = seconds / std::max(1.0, bytes_of(now_, load));
  if (known && (newest > out_of_date * *known || newest * out_of_date < *known))
    seconds_a_byte_.fill(std::nullopt);
  known = newest;
  double least = seconds / clearly_faster;
  for (const auto how : {form::none, form::union_of_items, form::gather, form::lhc})
    if (const auto predicted = predict(how, load); how != now_ && predicted && *predicted < least) {
      least = *predicted;
      now_ = how;
    }
  return now_;
}

} // namespace dynamix::exchange
