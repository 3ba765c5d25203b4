#pragma once

/// Who may say what to a host, by the name that a link has proven. What a statement says of itself must agree with
/// that name or, in a tree of arbitrators, with who comes through it. Knows no CAF.

#include "actors/network/worker_names.hpp"
#include "cluster/cluster_file.hpp"
#include "cluster/tree_plan.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dynamix::actors {

/// What crosses between hosts (actors/interfaces.hpp), by whom it is for.
enum class statement_kind : std::uint8_t {
  // A gateway.
  hello,
  attach,
  finish,
  // An aggregator, of a worker; the last two of one below, too.
  report,
  beat,
  settle,
  evaluation,
  absent,
  farewell,
  // An aggregator, of one below.
  relay,
  beats,
  window,
  // An aggregator, of the one above.
  guidance,
  // A worker.
  decision,
  // The store of a generation.
  operation,
  // Who has asked this host.
  answer,
};

/// What is said, as far as it matters who says it.
struct statement {
  statement_kind kind = statement_kind::answer;
  std::string host = {};                 ///< that it says it is of; empty: it does not say
  std::vector<std::uint32_t> ranks = {}; ///< of the workers that it is about
  std::string found_at = {};             ///< "NAME ADDRESS" by which the others are to reach it; empty: it does not say
};

/// Processes that stand for workers of several hosts (`swarm`): ranks, by the name that each proves.
using stand_ins = std::map<std::string, std::set<std::uint32_t>>;

/// What each host of a cluster may say to one of them.
class authority {
public:
  /// `host`: of the file, or one that joins an open cluster as a worker, or a stand-in. `names`: as it changes; null:
  /// the file's.
  authority(const cluster::cluster_file& file, const std::string& host, std::shared_ptr<worker_names> names = nullptr,
            stand_ins standing_in = {});

  /// An empty string where `speaker` may say that, or why not.
  std::string refuse(const std::string& speaker, const statement& said) const;
  /// From where that host's links to this one have come; none: it has no link any more.
  void linked(const std::string& host, std::vector<std::string> addresses) const;
  const std::string& own() const { return own_; }
  /// Whether that host holds an arbitrator of a tree: what others say may come through it.
  bool relays(const std::string& speaker) const { return plan_.find(speaker) < plan_.nodes.size(); }

private:
  void find_neighbours(const std::string& host);
  bool owns(const std::string& speaker, std::uint32_t rank) const;
  bool speaks_as(const std::string& speaker, const std::string& host) const;
  std::string refuse_worker(const std::string& speaker, const statement& said) const;
  std::string refuse_child(const std::string& speaker, const statement& said) const;
  std::string refuse_operation(const std::string& speaker, const statement& said) const;
  std::string name_of(std::uint32_t rank) const;

  const std::string own_;
  const bool is_open_;                    ///< hosts may join that the file does not name
  std::set<std::string> named_;           ///< by the file
  cluster::tree_plan plan_;               ///< without nodes: no tree
  std::shared_ptr<worker_names> workers_; ///< hosts, by rank
  stand_ins standing_in_;
  std::map<std::string, std::set<std::uint32_t>> below_; ///< who may come through which aggregator below, by its host
  std::set<std::string> deciding_;                       ///< for this host's worker
  std::set<std::string> above_;                          ///< where this host's aggregator may have a parent
  std::set<std::string> replicas_;                       ///< of the arbitrator, where this host is one
};

} // namespace dynamix::actors
