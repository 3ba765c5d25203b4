#pragma once

/// How a model learns: samples, gradients, noise and accuracy as functions of progress. Kept as a TOML file,
/// [workload], which has all of these figures and says in its comments which of them were fitted and which are assumed.

#include "cluster/cluster_file.hpp"
#include "exchange/form_choice.hpp"

#include <string>
#include <vector>

namespace dynamix::simulator {

/// Progress counts epochs at the reference batch: a step with the global batch B adds B * efficiency / epoch_samples,
/// efficiency = (phi + B_ref)/(phi + B) (Pollux, arXiv 2008.12260, formula 7), at the learning rate that belongs to B
/// (simulator/learning.hpp).
struct workload {
  std::string name;
  std::string source;
  double epoch_samples = 60000;
  double gradient_mib = 0.24;   ///< exchanged a step
  double reference_batch = 256; ///< B_ref, global, of the curves below
  // phi(progress) = phi_start * (1 + progress/phi_epochs)^phi_exponent, in samples
  double phi_start = 200;
  double phi_epochs = 1;
  double phi_exponent = 1;
  // test accuracy(progress) = limit - (limit - start) * (1 + progress/accuracy_epochs)^-accuracy_exponent
  double accuracy_start = 0.1;
  double accuracy_limit = 0.92;
  double accuracy_epochs = 0.2;
  double accuracy_exponent = 0.8;
  double accuracy_noise = 0.002; ///< standard deviation of an evaluation
  double phi_noise = 0.2;        ///< standard deviation of the logarithm of a measured phi
  /// Of the test set, which all workers share in proportion to their batch sizes. 0: evaluations take no time, and the
  /// target is reached where the curve crosses it; else at the first evaluation, with its noise, that is not below it.
  double evaluation_samples = 0;
  // Embeddings with sparse gradients, of which a step touches few rows.
  double sparse_mib = 0;  ///< of gradient_mib: their rows
  double row_floats = 32; ///< of a row
  double sample_rows = 0; ///< rows that a sample touches
  double rows_in_use = 0; ///< that samples choose among as if evenly; 0: all

  double phi(double progress) const;
  double accuracy(double progress) const;
  /// Mean loss of samples of which this share is classified rightly: assumed to fall in a straight line from that of
  /// guessing, ln(1/accuracy_start), to 0.
  double loss(double accuracy) const;
  /// Rows that so many samples touch, r (1 - exp(-k b/r)) with k rows per sample and r in use; at most all.
  std::size_t rows_of(double samples) const;
  /// The embeddings' rows, none of them touched yet.
  exchange::form_load sparse_load() const;
  /// Progress at which `accuracy` is reached; infinity at the limit and beyond.
  double progress_for(double accuracy) const;
};

/// `evaluation_samples` and what concerns sparse gradients may be absent. Errors carry file, line and column; empty:
/// `result` holds what the file says.
std::vector<cluster::file_error> read_workload(const std::string& path, workload& result);
/// As a file that read_workload reads.
std::string to_toml(const workload& from);
/// Its fields, as the Markdown table of docs/simulation-files.md.
std::string describe_workload_markdown();

} // namespace dynamix::simulator
