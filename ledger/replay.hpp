#pragma once

/// Makes a run's decisions again: the ledger's reports go through the same code that decided live
/// (policy/deliberation.hpp), with the parameters that decided then, and what comes out is compared with the ledger.

#include "cluster/cluster_file.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// The first thing that came out differently.
struct replay_difference {
  std::uint64_t term = 0;
  std::uint64_t window = 0;
  std::string host;  ///< empty: of the window
  std::string field; ///< "decided_batch"
  std::string ledger;
  std::string replay;
};

struct replay_result {
  std::uint64_t lives = 0; ///< of arbitrators, each of which begins with nothing measured
  std::uint64_t windows = 0;
  std::uint64_t decisions = 0; ///< made again, one a worker and window
  std::uint64_t skipped = 0;   ///< windows that could not be decided again
  std::string skipped_why;     ///< of the first of them
  bool by_workers = false;     ///< what is made again is what the workers chose, as they reported it
  /// Largest |ledger - replay| / (1 + |ledger|) of states, probabilities, values and rewards; 0: equal to the bit.
  double deviation = 0;
  std::optional<replay_difference> first;

  /// Every window was decided again, and the same.
  bool proven() const { return windows > 0 && skipped == 0 && !first; }
};

/// Returns an empty string, or why the parameters of that digest cannot be had.
using read_parameters = std::function<std::string(const std::string& digest, std::vector<std::uint8_t>& parameters)>;

/// Ends at the first difference. Batch sizes, actions and interventions must be equal; numbers of the network may
/// deviate by 1e-4, since another processor may round otherwise.
replay_result replay(const std::vector<ledger::row>& rows, const cluster::cluster_file& file,
                     const read_parameters& read);

/// "The same: ..." or where it differs, in sentences.
std::string to_text(const replay_result& result);
std::string to_json(const replay_result& result);

} // namespace dynamix::ledger
