#pragma once

/// A group that sums in a ring or through servers, whichever is measured to be the faster. Internal to the room.

#include "exchange/ring.hpp"

#include <memory>

namespace dynamix::exchange {

/// Takes over `served`, which sums through servers, and has the members' `ring`. Plain buckets begin with the way that
/// is planned. From 64 KiB on they are measured, all together, and go the other way once that is predicted to be faster
/// or has not been tried yet (way_choice); smaller ones, those of float64, and what a fixed form of compression sums
/// stay with the plan. Under form::automatic compressed buckets choose for themselves (group::ways). `told` may be
/// empty.
std::unique_ptr<group> choose_ways(std::unique_ptr<group> served, ring_group& ring, const summing_plan& plan,
                                   choice_teller told);

} // namespace dynamix::exchange
