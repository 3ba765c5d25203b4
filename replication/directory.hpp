#pragma once

/// A replica's directory around what libraft keeps in it: whether it may be trusted, and what is done when not. The
/// file `probation` in it says how far a voter without memory has come (replication/probation.hpp):
///
///     catching-up   it has none yet; what is here is of no worth and is begun anew at the next start
///     promised T    probation is over; at the next start its votes up to term T are taken as given

#include <cstdint>
#include <string>

namespace dynamix::replication {

struct directory_state {
  bool empty = false;              ///< libraft has nothing in it: bootstrap
  bool probation = false;          ///< this voter has no memory
  std::uint64_t promised_term = 0; ///< to be taken over before the start; 0 none
  std::string damage;              ///< why it cannot be started from: move it aside
  std::string error;               ///< why nothing can be said: the file system fails
};

/// Makes the directory if there is none, and notes the beginning of a probation if `alone` is false and it is empty.
directory_state prepare_directory(const std::string& path, bool alone);

/// These return an empty string or what went wrong.
std::string promise_term(const std::string& path, std::uint64_t term);
std::string forget_promise(const std::string& path);
/// Renames the directory to the first free PATH.damaged-1, -2, ...
std::string move_aside(const std::string& path, std::string& moved_to);
/// Whether the file system takes what libraft needs to go on: three segments.
std::string check_room(const std::string& path);
/// Whether this process may open all files in it: what it may not read is not damaged.
std::string check_access(const std::string& path);

} // namespace dynamix::replication
