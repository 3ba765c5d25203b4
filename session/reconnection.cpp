#include "session/reconnection.hpp"

#include <algorithm>

namespace dynamix::session {

void reconnection::reached() {
  failures_ = 0;
  delay_seconds_ = 0;
  was_reached_ = true;
}

double reconnection::failed(double now_seconds) {
  if (!was_reached_ && now_seconds - began_seconds_ < options_.first_seconds)
    return options_.first_delay_seconds * 2;
  target_ = (target_ + 1) % options_.hosts.size();
  if (++failures_ % options_.hosts.size() != 0)
    return 0;
  delay_seconds_ = std::clamp(delay_seconds_ * 2, options_.first_delay_seconds, options_.longest_delay_seconds);
  return delay_seconds_;
}

double reconnection::redirected(const std::string& leader, double now_seconds) {
  const auto named = std::ranges::find(options_.hosts, leader);
  if (named == options_.hosts.end())
    return failed(now_seconds);
  target_ = static_cast<std::size_t>(named - options_.hosts.begin());
  return options_.first_delay_seconds;
}

} // namespace dynamix::session
