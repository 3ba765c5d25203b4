#pragma once

#include "cluster/cluster_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dynamix {

/// The cluster file in `text`, which is a right one.
inline cluster::cluster_file parsed_cluster(const std::string& text, const std::string& path = "test.toml") {
  const auto read = cluster::parse_cluster_text(text, path);
  for (const auto& error : read.errors)
    ADD_FAILURE() << to_string(error);
  return read.file;
}

} // namespace dynamix
