#include "replication/journal.hpp"

#include <array>

namespace dynamix::replication {

std::string_view kind_name(const journal_entry& entry) {
  static constexpr std::array<std::string_view, std::variant_size_v<decltype(entry.content)>> names = {
      "term_begun",     "generation_formed", "window_decided", "policy_published",
      "training_ended", "place_given",       "shard_layout"};
  return names[entry.content.index()];
}

std::string_view to_string(verdict value) {
  static constexpr std::array<std::string_view, 9> names = {"",
                                                            "applied",
                                                            "stale term",
                                                            "term not begun",
                                                            "generation passed",
                                                            "window passed",
                                                            "term needed",
                                                            "policy passed",
                                                            "damaged"};
  return names[static_cast<std::size_t>(value)];
}

} // namespace dynamix::replication
