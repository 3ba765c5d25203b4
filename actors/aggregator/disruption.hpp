#pragma once

/// Which member keeps the others from training, and is left out for a while. Knows no CAF.
///
/// Who is at fault where a generation comes to nothing, nobody knows: each member may say what it likes of itself and
/// of the others. So nobody's word counts. Once some generations in a row have come to nothing for a while, the next
/// one is formed without one member: if it lasts, that was the one, which stays left out for a while; else it is
/// another's turn. And whoever goes again and again, with hardly a step in between, is left out, too. Each
/// time it takes less to be left out, and lasts twice as long. The group of a script is its user's, who alone changes
/// it.

#include "actors/aggregator/membership.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace dynamix::actors {

/// It waits, and is not to train yet, while there is another that may.
bool is_held(double now_seconds, const membership_state& state, std::uint32_t rank);

/// What the newest generation has completed: as many steps as two of its workers say, where it has two.
std::uint64_t reached_steps(const membership_state& state);

/// Training has got somewhere in the newest generation, so that its end cost the others little.
bool has_got_on(const membership_state& state);

/// Generations in a row, with the one that is ending, that came to nothing though nobody had gone.
std::uint32_t count_fruitless(const membership_state& state, const cluster::timeouts& timeouts);

/// Who is to be left out of the next generation of those who wait, since so many have come to nothing.
std::optional<membership_change::hold> find_suspect(double now_seconds, const membership_state& state,
                                                    const cluster::timeouts& timeouts, std::uint32_t fruitless,
                                                    const std::vector<std::uint32_t>& waiting);

/// Who waits for a place and has gone too often.
std::vector<membership_change::hold> find_restless(double now_seconds, const membership_state& state,
                                                   const cluster::timeouts& timeouts);

/// Counts that it has gone.
void note_going(double now_seconds, const cluster::timeouts& timeouts, member& one);

/// It is left out from now on.
void hold(double now_seconds, const cluster::timeouts& timeouts, member& one, double seconds);

} // namespace dynamix::actors
