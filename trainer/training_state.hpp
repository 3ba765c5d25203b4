#pragma once

/// What a worker's training stands at between two steps, and what it keeps from one generation to the next. Internal to
/// the room: includes Torch.

#include "client/lockstep.hpp"
#include "cluster/cluster_file.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/checkpoint_files.hpp"
#include "trainer/clock.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/weight_average.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::trainer {

struct loop_options {
  cluster::training training;
  cluster::batch batch;
  std::vector<std::uint32_t> highest_by_rank = {}; ///< of all workers of the cluster file, whoever trains
  std::uint32_t base_workers = 0;                  ///< cluster::base_workers; 0: all of these
  std::uint32_t first_batch = 0;                   ///< cluster_file::first_batch; 0: batch.initial
  std::uint32_t window_steps = 10;
  messages::balancing balances = messages::balancing::off; ///< session::balancing_of
  std::uint64_t seed = 1;
  std::vector<cluster::emulation> emulate; ///< of this host
  std::string checkpoint_directory;        ///< empty: write none
  std::size_t keep_checkpoints = 3;
  storage::file_writer write_file = storage::write_private_file;
  torch::Device device = torch::kCPU;

  std::size_t first_members() const { return base_workers == 0 ? highest_by_rank.size() : base_workers; }
  /// With the initial batch size on each of them: what the learning rate is meant for.
  std::uint64_t base_batch() const { return std::uint64_t{batch.initial} * first_members(); }
};

struct training_state {
  /// `model` is on the options' device; the data sets and `time` must outlive the state. As if its first members
  /// had begun: `regroup` makes it a generation's.
  training_state(loop_options given, torch::nn::Sequential model_on_device, const dataset& train, const dataset& test,
                 clock& clock);

  checkpoint capture() const;
  /// Takes over `state`. Returns an empty string, or why it does not fit; then nothing more can be done with this one.
  std::string restore(const checkpoint& state);
  /// Shares the global batch among `ranks`, each below the number of workers of the file.
  void regroup(const std::vector<std::uint32_t>& ranks);

  double elapsed_seconds() const;
  /// Whether something that happens every so many epochs is due, last done at `done_samples`.
  bool is_due(double every_epochs, std::uint64_t done_samples) const;
  bool all_dealt() const { return reached.samples >= wanted_samples; }

  const loop_options options;
  torch::nn::Sequential model;
  clock& time;
  const channel_statistics train_channels;
  batch_loader train_loader;
  batch_loader test_loader;
  const std::uint64_t test_stride;    ///< each so-many-th sample of the test set is evaluated
  const std::uint64_t test_samples;   ///< these
  const std::uint64_t wanted_samples; ///< by all workers; the end
  optimizer descent;
  weight_average average;
  const std::uint64_t epoch_samples;
  checkpoint_files checkpoints;

  // As of the last completed step.
  std::vector<std::uint32_t> members; ///< ranks, ascending
  /// Batch sizes are in the order of `members`. After a change of these no decision is in force, after a restore an
  /// earlier run's.
  client::reached_state reached;
  std::uint64_t window = 0; ///< closed
  learning_rate_step rate;
  std::uint64_t evaluated_samples = 0;
  std::uint64_t checkpointed_samples = 0;
  double accuracy = 0;
  double best_accuracy = 0;            ///< of those that were due, as is the next
  std::uint64_t stale_evaluations = 0; ///< since the best one
  double seconds_to_target = -1;

  /// Most samples that this worker computes at once; lowered where its memory does not hold them, and no part of a
  /// checkpoint, which another machine may go on from. 0: all.
  std::uint32_t micro_batch = 0;
  bool step_in_flight = false;
  double train_loss = 0; ///< summed over this worker's samples since the last evaluation
  std::uint64_t train_loss_samples = 0;

private:
  bool running_ = false;
  double started_seconds_ = 0;
  double earlier_seconds_ = 0; ///< trained before that
};

} // namespace dynamix::trainer
