#pragma once

/// What `top` shows: the live state of a run (docs/dashboard.md) as lines of text. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct top_worker {
  std::string name;
  std::string state; ///< waiting, training, lost, ended
  double batch = 0;
  double decided_batch = 0;
  double samples_per_second = 0;
  double step_seconds = 0;
  double compute_seconds = 0;
  double waiting_seconds = 0; ///< exchange, network and barrier
  double accuracy = 0;
  bool guarded = false;
};

struct top_state {
  std::string cluster;
  std::string policy;
  std::string mode;
  std::string phase; ///< waiting, training, ended
  double window = 0;
  double generation = 0;
  double policy_version = 0;
  double elapsed_seconds = 0;
  double samples = 0;
  double planned_samples = 0;
  double target_accuracy = 0;
  double accuracy = 0; ///< of the newest window's batches
  std::optional<double> test_accuracy;
  double samples_per_second = 0;
  double global_batch = 0;
  double noise_scale = 0;
  double reward = 0;
  std::vector<top_worker> workers;
  std::vector<std::string> warnings;
  std::vector<std::string> events; ///< newest last
};

/// From the answer of GET /api/state; nothing for a text that is none.
std::optional<top_state> parse_top_state(const std::string& json);

struct top_screen {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colour = false;
};
/// At most `height` lines of at most `width` characters, without line breaks: a head, then the workers (where they do
/// not all fit, those that compute longest), then warnings and events as far as there is room.
std::vector<std::string> draw(const top_state& state, const top_screen& screen);

} // namespace dynamix::node
