#pragma once

#include "exchange/gloo_ring.hpp"

#include <vector>

namespace dynamix::exchange {

/// Bytes a second that each member moves each way while all send to up to 16 others, by position: the lower of what it
/// sends and what it receives, with all that carries it (CPU, encryption). A link that is faster than its peers'
/// together is not seen to be. The same on all members, which call it together. Takes some 0.2 s. Throws
/// exchange::error.
std::vector<double> measure_link_rates(ring_group& peers, const interruption& stop);

} // namespace dynamix::exchange
