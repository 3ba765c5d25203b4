#include "node/commands/command_line.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

int main(int argc, char** argv) {
  int code = dynamix::node::run_command_line({argv + 1, argv + argc}, std::cout, std::cerr);
  errno = 0;
  if (!std::cout.flush() && errno != EPIPE) { // whoever has closed a pipe wants no more
    std::cerr << "dynamix-node: error: cannot write the output" << (errno != 0 ? ": " : "")
              << (errno != 0 ? std::strerror(errno) : "") << "\n";
    code = code != 0 ? code : dynamix::node::exit_failed;
  }
  std::cerr.flush();
  // Without destructors of statics: an actor or a thread of Torch that has not ended in time may still use them.
  std::_Exit(code);
}
