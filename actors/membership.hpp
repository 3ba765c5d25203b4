#pragma once

/// Who belongs to the generation. Knows no CAF.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::actors {

enum class member_state : std::uint8_t {
  awaited,  ///< has not joined yet
  present,  ///< trains, or waits for the others
  departed, ///< said farewell at the end of its training
  failed,   ///< said farewell before that
  lost,     ///< its connection broke without a farewell
};

struct member {
  std::string host;
  member_state state = member_state::awaited;
  std::uint64_t incarnation = 0;
};

/// The workers of one generation: a fixed set, so ranks are the workers' positions in the cluster file. A loss closes
/// the generation to newcomers; a worker whose connection alone broke may come back under its old incarnation.
class membership {
public:
  membership(const cluster::cluster_file& file, std::uint32_t heartbeat_interval_ms, std::uint64_t generation);

  /// Judges a hello, and takes the worker in if it is accepted.
  messages::welcome admit(const messages::hello& hello);
  /// Said farewell. False if it was not present.
  bool departed(std::uint32_t rank, bool succeeded);
  /// Its connection broke without a farewell. False if it was not present.
  bool lost(std::uint32_t rank);

  std::uint64_t generation() const { return generation_; }
  /// Newest term that any worker has obeyed; a new arbitrator's lies above it.
  std::uint64_t highest_term() const { return highest_term_; }
  /// A worker is lost or has failed: nobody new can join.
  bool closed() const;
  /// Nobody is present, and nobody can still join.
  bool over() const;
  std::size_t awaited() const;
  const std::vector<member>& members() const { return members_; }
  /// "cy and dot": for messages to people.
  std::string names(member_state state) const;

private:
  messages::welcome refuse(messages::welcome_verdict verdict, std::string detail) const;

  std::string cluster_;
  std::uint64_t digest_;
  std::uint32_t heartbeat_interval_ms_;
  std::uint64_t generation_;
  std::uint64_t highest_term_ = 0;
  std::vector<member> members_; ///< by rank
};

} // namespace dynamix::actors
