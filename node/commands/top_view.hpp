#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct top_screen {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colour = false;
};

enum class top_view : std::uint8_t {
  workers, ///< and the newest warnings and events
  events,  ///< warnings and events alone
  why,     ///< why the batch sizes are as they are
  help
};
/// What a key asks for; nothing where it asks for no view.
std::optional<top_view> view_of(char key);
inline constexpr const char* top_keys = "q quit  w workers  e events  x explain  h help";

/// What `top` shows of a run's live state (docs/dashboard.md): at most `height` lines of at most `width` characters, a
/// head, then the workers (where they do not all fit, those that compute longest), then warnings and events as far as
/// there is room. Nothing where `state` is not the answer of GET /api/state; what it lacks is 0 or empty.
std::optional<std::vector<std::string>> draw_top(const std::string& state, const top_screen& screen,
                                                 top_view view = top_view::workers);

} // namespace dynamix::node
