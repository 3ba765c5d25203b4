#pragma once

#include <functional>
#include <string>

namespace dynamix::node {

/// "ada, ben, cleo": what `name` says of each.
template <class Range, class Name = std::identity>
std::string listed(const Range& range, Name name = {}) {
  std::string text;
  for (const auto& each : range)
    (text += text.empty() ? "" : ", ") += std::invoke(name, each);
  return text;
}

} // namespace dynamix::node
