#pragma once

/// Whose each rank is: of the file's workers for good, and a place of an open cluster of the host that has come for it;
/// and from where such hosts come.
/// An arbitrator that begins anew finds them in a file, since workers that train go by their ranks. Knows no CAF;
/// thread-safe.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynamix::actors {

class worker_names {
public:
  /// `file`: with its places. `path`: where the hosts of its places are kept; what is there of another cluster file is
  /// not taken. Empty: nowhere.
  explicit worker_names(const cluster::cluster_file& file, std::string path = {});

  /// By rank; empty: a place that nobody has had.
  std::vector<std::string> all() const;
  /// Empty: nobody's.
  std::string name_of(std::uint32_t rank) const;
  std::optional<std::uint32_t> rank_of(const std::string& host) const;
  /// One of them is that host's, itself or a slot.
  bool has_worker_of(const std::string& host) const;
  /// From here on it is that host's. Returns an empty string, or why it could not be kept.
  std::string give(std::uint32_t rank, const std::string& host);
  /// The places are these hosts' and nobody else's: another has kept them.
  void restore(const std::map<std::uint32_t, std::string>& places);
  /// From where the links of a host have come that the file does not name; none: it has no link any more.
  void linked(const std::string& host, std::vector<std::string> addresses);
  /// Why the others are not to be told that they reach that host at `address`: none of its links comes from there, and
  /// it is not its proven name. Empty: they may be, or it has no link.
  std::string why_elsewhere(const std::string& host, const std::string& address) const;

private:
  void read();
  void index();
  std::string write() const;

  mutable std::mutex mutex_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> ranks_;      ///< of `names_`: looked up for each message that comes
  std::unordered_set<std::string> hosts_;                     ///< of `names_`
  std::vector<bool> places_;                                  ///< by rank: it is not of a worker that the file names
  std::map<std::string, std::vector<std::string>> addresses_; ///< from which links have come, by host
  const std::string path_;
  const std::string first_line_; ///< which cluster file the ranks belong to
};

} // namespace dynamix::actors
