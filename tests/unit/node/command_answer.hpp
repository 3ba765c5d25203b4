#pragma once

#include "node/commands/command_line.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace dynamix::node::testing {

/// A command that should have been refused, and was not, starts its hosts by this very program, which would run all
/// tests again, and so on without end.
inline const bool started_as_a_test = [] {
  std::ifstream command_line("/proc/self/cmdline");
  std::string word;
  std::getline(command_line, word, '\0');
  if (std::getline(command_line, word, '\0') && word == "run")
    _exit(2);
  return true;
}();

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
