#pragma once

/// Where the only arbitrator's host keeps which shards take workers; replicas have it in their journal.

#include "actors/aggregator/layout_decision.hpp"

#include <string>

namespace dynamix::actors {

/// Without homes where there is none, or what is there is not one.
shard_layout read_layout(const std::string& path);
/// Returns an empty string, or why it could not be written.
std::string write_layout(const std::string& path, const shard_layout& layout);

} // namespace dynamix::actors
