#include "node/commands/command_line.hpp"

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  const int code = dynamix::node::run_command_line({argv + 1, argv + argc}, std::cout, std::cerr);
  std::cout.flush();
  std::cerr.flush();
  // Without destructors of statics: an actor or a thread of Torch that has not ended in time may still use them.
  std::_Exit(code);
}
