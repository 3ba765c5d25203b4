#pragma once

#include "client/gradient_noise.hpp"
#include "client/learning_rate.hpp"
#include "client/sampler.hpp"
#include "messages/types.hpp"
#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::trainer {

using client::learning_rate_state;
using client::learning_rate_step;
using client::noise_state;
using client::sampler_position;

/// A file beyond this is not read.
inline constexpr std::size_t checkpoint_bytes_max = std::size_t{16} << 30;

/// A training run between two steps: everything that the next step depends on. The generator of rank r at step s is
/// seeded with step_seed(seed, s, r), so `seed` and `step` are the generators' whole state.
struct checkpoint {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;    ///< completed
  std::uint64_t samples = 0; ///< by all workers
  sampler_position sampler;
  std::uint64_t epoch_samples = 0; ///< samples of a whole epoch: the position means nothing for another data set
  learning_rate_state learning_rate;
  noise_state noise;
  std::vector<std::uint32_t> batches; ///< of all members, 1 to messages::max_workers of them
  std::vector<std::uint32_t> members; ///< their ranks, ascending; a file without them is of the ranks 0, 1, ...
  messages::decision_key decision;    ///< the last that was applied
  std::uint64_t window = 0;           ///< closed
  double elapsed_seconds = 0;
  double best_accuracy = 0;
  double seconds_to_target = -1; ///< negative if the target has not been reached
  // How many samples had been trained on at the last evaluation and at the last checkpoint: what was due and could not
  // be finished is made up for. A file without them has nothing to make up for.
  std::uint64_t evaluated_samples = 0;
  std::uint64_t checkpointed_samples = 0;
  double accuracy = 0;                 ///< of the last evaluation
  std::uint64_t stale_evaluations = 0; ///< since the best one
  learning_rate_step rate;             ///< of the last step
  std::vector<storage::tensor_record> model;
  std::vector<storage::tensor_record> optimizer;
  std::vector<storage::tensor_record> average; ///< of the weights; empty where none is kept
};

std::vector<std::uint8_t> encode(const checkpoint& state);
/// Returns an empty string, or what is wrong with the bytes; then `state` is as it was.
std::string decode(std::span<const std::uint8_t> bytes, checkpoint& state);

/// `directory`/checkpoint-<step>.safetensors, the step in 12 digits, with -<host> behind it where `host` is not empty.
std::string checkpoint_path(const std::string& directory, std::uint64_t step, const std::string& host = "");
/// Both return an empty string, or what went wrong with the path in it. Writing is atomic: what stood at `path` stays
/// whole until the new file is. Nobody but the owner may read the file.
std::string write_checkpoint(const std::string& path, const checkpoint& state,
                             const storage::file_writer& write = storage::write_private_file);
std::string read_checkpoint(const std::string& path, checkpoint& state);

/// The files of `directory` with the names that `checkpoint_path` gives them up to `step`, oldest first: without a host
/// not what hosts wrote for themselves.
std::vector<std::string> checkpoints_up_to(const std::string& directory, std::uint64_t step,
                                           const std::string& host = "");

/// What whoever was killed while it wrote a checkpoint or its signature has left.
struct unfinished_checkpoint {
  std::string path;
  std::string of; ///< the checkpoint's path
  std::uint64_t step = 0;
};
std::vector<unfinished_checkpoint> unfinished_checkpoints(const std::string& directory);

struct newest_result {
  std::string path; ///< empty when the directory holds no checkpoint that can be read
  checkpoint state;
  std::vector<std::string> refused; ///< what is wrong with each newer file that was passed over
};

/// The checkpoint with the highest step that is whole, among checkpoint-<step>.safetensors and
/// checkpoint-<step>-<host>.safetensors.
newest_result newest_checkpoint(const std::string& directory);

} // namespace dynamix::trainer
