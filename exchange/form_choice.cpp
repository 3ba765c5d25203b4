#include "exchange/form_choice.hpp"

#include "exchange/sketch.hpp"

#include <algorithm>

namespace dynamix::exchange {

namespace {

/// Another form must be faster by so much: predictions are not more exact, and to change costs some sums.
constexpr double clearly_faster = 1.1;
/// What was measured is out of date when the form in use takes so many times as long, or as little.
constexpr double out_of_date = 2;

/// What was measured of one way says so much about the other, at best: servers have been measured to be from 0.6 times
/// to 1.05 times as fast as a ring promised of them.
constexpr double servers_after_ring = 1 / 1.05;
constexpr double ring_after_servers = 0.6;

/// A shorter wait, in relation to the step, is hidden well enough: another way could gain no more.
constexpr double hidden_share = 0.05;

constexpr std::size_t form_count = 4;

std::size_t place_of(route by) {
  return static_cast<std::size_t>(by.how) + (by.by_servers ? form_count : 0);
}

double ring_bytes(form how, const form_load& load) {
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

} // namespace

std::string name_of(route by) {
  constexpr std::array<const char*, form_count> names = {"dense", "union", "gather", "lhc"};
  return std::string(names.at(static_cast<std::size_t>(by.how))) + (by.by_servers ? " through servers" : "");
}

double bytes_of(route by, const form_load& load) {
  return ring_bytes(by.how, load) * (by.by_servers ? load.servers_time : 1);
}

std::optional<double> form_choice::predict(route by, const form_load& load) const {
  if (const auto& known = seconds_a_byte_[place_of(by)])
    return *known * bytes_of(by, load);
  std::optional<double> hoped;
  bool way_known = false;
  for (std::size_t place = 0; place < seconds_a_byte_.size(); ++place) {
    const auto& rate = seconds_a_byte_[place];
    if (rate && (!hoped || *rate < *hoped))
      hoped = rate;
    way_known = way_known || (rate && (place >= form_count) == by.by_servers);
  }
  const double other_way = by.by_servers ? servers_after_ring : ring_after_servers;
  return hoped ? std::optional(*hoped * bytes_of(by, load) * (way_known ? 1 : other_way)) : std::nullopt;
}

bool trial_pause::passes() {
  if (changes_ > 0 || left_ == 0)
    return false;
  --left_;
  return true;
}

void trial_pause::judge(bool changed, std::size_t routes) {
  changes_ += changed ? 1 : 0;
  if (changes_ == 0 || (changed && changes_ < routes))
    return;
  changes_ = 0;
  left_ = next_;
  next_ *= 2;
}

route form_choice::take(double seconds, const form_load& load, bool hidden) {
  if (pause_.passes())
    return now_;
  const auto before = now_;
  if (!hidden) {
    auto& known = seconds_a_byte_[place_of(now_)];
    const double newest = seconds / std::max(1.0, bytes_of(now_, load));
    if (known && (newest > out_of_date * *known || newest * out_of_date < *known))
      seconds_a_byte_.fill(std::nullopt);
    known = newest;
    now_ = fastest(seconds, load);
  }
  const auto by_servers =
      load.servers_time > 0 ? std::ranges::count_if(forms_, [](form how) { return how != form::gather; }) : 0;
  pause_.judge(now_ != before, forms_.size() + static_cast<std::size_t>(by_servers));
  return now_;
}

/// The one in use, which has taken `seconds`, unless another is predicted to be faster by enough.
route form_choice::fastest(double seconds, const form_load& load) const {
  route best = now_;
  double least = seconds / clearly_faster;
  const auto consider = [&](route by) {
    if (const auto predicted = predict(by, load); by != now_ && predicted && *predicted < least) {
      least = *predicted;
      best = by;
    }
  };
  for (const auto how : forms_) {
    consider({how, false});
    if (load.servers_time > 0 && how != form::gather)
      consider({how, true});
  }
  return best;
}

bool way_choice::take(double wait_seconds, double step_seconds, const form_load& load) {
  const bool before = by_servers();
  choice_.take(wait_seconds, load, wait_seconds < hidden_share * step_seconds);
  return by_servers() != before;
}

} // namespace dynamix::exchange
