#include "node/reports/commit.hpp"

namespace dynamix::node {

std::string program_version() {
  return std::string("dynamix-node " DYNAMIX_VERSION " (") + commit() + ")";
}

} // namespace dynamix::node
