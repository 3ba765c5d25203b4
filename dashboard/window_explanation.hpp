#pragma once

/// Why the batch sizes at a point of the batch chart are what they are: the words of `dynamix-node explain`.

#include "cluster/cluster_file.hpp"
#include "ledger/line_reader.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace dynamix::dashboard {

struct explanation_question {
  double elapsed_seconds = 0; ///< of training, as charts have them
  std::string worker;         ///< empty: all
  bool operator==(const explanation_question&) const = default;
};

/// Longer ledgers are left to the command line.
inline constexpr std::uint64_t explained_bytes_max = 64U << 20;

/// {"window": N, "text": "..."} of the first window that ended at that time or later, else of the newest; or
/// {"problem": "..."}. Reads `lines`, a ledger's from its beginning, until `stopped`.
std::string explain_at(const cluster::cluster_file& file, ledger::line_reader& lines, const explanation_question& asked,
                       const std::function<bool()>& stopped);

} // namespace dynamix::dashboard
