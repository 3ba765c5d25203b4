#pragma once

#include "node/commands/command_line.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace dynamix::node::testing {

struct answer {
  int code;
  std::string out;
  std::string err;
};

/// What `dynamix-node` says to these arguments.
inline answer ask(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_command_line(arguments, out, err);
  return {code, out.str(), err.str()};
}

inline std::string shipped(const std::string& path) {
  return std::string(DYNAMIX_SOURCE_DIRECTORY) + "/deployments/" + path;
}

} // namespace dynamix::node::testing
