#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct top_screen {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colour = false;
};

/// What `top` shows of a run's live state (docs/dashboard.md): at most `height` lines of at most `width` characters, a
/// head, then the workers (where they do not all fit, those that compute longest), then warnings and events as far as
/// there is room. Nothing where `state` is not the answer of GET /api/state; what it lacks is 0 or empty.
std::optional<std::vector<std::string>> draw_top(const std::string& state, const top_screen& screen);

} // namespace dynamix::node
