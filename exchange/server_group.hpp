#pragma once

/// Sums through servers, over the connections of a ring: each member sums a share of every bucket, and so may hosts
/// that bring no gradients. The others send it their parts, it adds them up in the order of positions and sends all of
/// them the sum, piece by piece, so that parts come in while sums go out. Servers keep nothing from one step to the
/// next. (BytePS, OSDI'20, with servers that only sum.)

#include "exchange/ring.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace dynamix::exchange {

/// A group whose buckets, `combine` and `sum` go through servers, and all else through `ring`, which it takes over.
/// Buckets hold the float sums in the order of positions, bit for bit. `shares`: of each member, >= 0, in relation to
/// each other, not all 0; the same on all members. `stop` must outlive the group. `workers`: where `ring` has members
/// that bring nothing and only serve, the group of the others, who come before them in `ring`; null: there are none.
/// With `workers`, `shares` may be empty: then servers sum nothing, and are only told when the members leave.
std::unique_ptr<group> sum_by_servers(std::unique_ptr<ring_group> ring, const std::vector<double>& shares,
                                      const interruption& stop, std::unique_ptr<group> workers = nullptr);

/// What a member of `ring` behind the first `workers` ones does: sums its share until these leave. Returns the word
/// that they left with. Throws exchange::error when one of them is lost, or `stop` is raised.
std::uint64_t serve_members(ring_group& ring, std::uint32_t workers, const std::vector<double>& shares,
                            const interruption& stop);

} // namespace dynamix::exchange
