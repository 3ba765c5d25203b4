#pragma once

/// Text for a terminal. Numbers and names: ledger/text.hpp.

#include "ledger/text.hpp"

#include <string>

namespace dynamix::node {

using ledger::duration;
using ledger::fixed;
using ledger::grouped;
using ledger::listed;
using ledger::percent;
using ledger::printable;
using ledger::sparkline;

/// As any shell reads it back that a person logs in with (POSIX shells, fish, tcsh): quotes only where they are needed.
/// Control characters, which only `printf` can write without harm to a terminal, need one of POSIX.
std::string shell_quoted(const std::string& argument);

} // namespace dynamix::node
