#pragma once

/// How the members of a group find and reach each other: each says in the store where it is reached, waits for all
/// others, and has one connected stream to each of them in the end.

#include "exchange/rendezvous.hpp"
#include "links/connection.hpp"

#include <vector>

namespace dynamix::exchange {

class interruption;

/// The streams by position, none at this member's own. Over the links of `own` or, where it has none, over TCP in the
/// clear, on which a member shows that it knows what the other one has written into the store. Throws exchange::error,
/// which names the ranks that did not come before the join time-out, or what `stop` was raised for. Uses `rendezvous`
/// no more once it returns or throws.
std::vector<links::descriptor> meet(const place& own, store& rendezvous, const interruption& stop);

} // namespace dynamix::exchange
