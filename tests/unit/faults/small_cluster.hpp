#pragma once

/// A cluster of the arbitrator "hub" and the workers "w0", "w1" and "w2".

#include "cluster/cluster_file.hpp"

#include <gtest/gtest.h>

namespace dynamix::faults::testing {

inline cluster::cluster_file small_cluster() {
  auto parsed = cluster::parse_cluster_text(R"([cluster]
name = "small"
[[host]]
name = "hub"
port = 7401
roles = ["arbitrator"]
[[host]]
name = "w0"
port = 7402
[[host]]
name = "w1"
port = 7403
[[host]]
name = "w2"
port = 7404
)",
                                            "small.toml");
  for (const auto& error : parsed.errors)
    ADD_FAILURE() << cluster::to_string(error);
  return parsed.file;
}

} // namespace dynamix::faults::testing
