#pragma once

#include "exchange/ring.hpp"

#include <vector>

namespace dynamix::exchange {

/// Bytes a second that each member moves each way, by position: the lower of what it sends and what it receives, with
/// all that carries it (CPU, encryption), with the best of up to 8 others, one after the other. Not all at once: peers
/// take unequal parts of a link, and what each says of its own then adds up to more than the link. A link that is
/// faster than all of those is not seen to be. The same on all members, which call it together. Takes 0.1 s for each of
/// the 8 where links are fast, and some seconds where one takes 64 KiB in more than a quarter of a second. Throws
/// exchange::error.
std::vector<double> measure_link_rates(ring_group& peers, const interruption& stop);

} // namespace dynamix::exchange
