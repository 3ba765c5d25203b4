#pragma once

/// Which form sums a sparse bucket: the one that is predicted to be the fastest, from what the forms have been measured
/// to take. Pure: members that are given the same choose the same.

#include "exchange/compression.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::exchange {

/// How a bucket is summed: in which form, and by whom.
struct route {
  form how = form::union_of_items;
  bool by_servers = false; ///< never with form::gather, where nobody sums for others

  auto operator<=>(const route&) const = default;
};

/// "dense", "union", "gather" or "lhc", and "through servers" behind it.
std::string name_of(route by);

/// What a sum has to move.
struct form_load {
  std::uint32_t members = 2;
  std::size_t items = 0;       ///< of the bucket
  std::size_t item_floats = 1; ///< of an item
  std::size_t longest = 0;     ///< items of the member that brings the most
  std::size_t together = 0;    ///< items that any member brings
  double servers_time = 0;     ///< of servers, in relation to the same sum in a ring, as predicted; 0: there are none
};

/// Bytes that a member of a ring sends for one sum, and receives. `how` is none, union_of_items, gather or lhc. Through
/// servers: so many as the ring would send in the time that servers are predicted to take.
double bytes_of(route by, const form_load& load);

/// A choice is looked at after so many sums, of which the first ones show what sizes to agree on and are not measured.
struct look {
  static constexpr std::uint64_t sums = 8;
  static constexpr std::uint64_t warm = 3;
};

/// Looks that are let pass between rounds of trials, each time twice as many: where what is measured changes all the
/// time, trials cost ever less. A round goes from the first change of a choice to the look at which it is kept, or
/// until each route has had its turn.
class trial_pause {
public:
  /// Whether the next look is let pass.
  bool passes();
  /// A look that was not has changed the choice among so many routes, or kept it.
  void judge(bool changed, std::size_t routes);

private:
  std::size_t changes_ = 0; ///< of the round
  std::uint64_t left_ = 0;
  std::uint64_t next_ = 2;
};

/// The seconds of a byte of each route are what it was last measured to take. One that was not measured is hoped to be
/// as fast a byte as the fastest that was, and faster where nothing has gone its way, in a ring or through servers,
/// yet: so each that could win is tried once, and none that cannot. What was measured is forgotten when the route in
/// use has come to take half or twice as much a byte. Between rounds of such trials ever more looks are let pass.
class form_choice {
public:
  /// Among these forms. Begins with union_of_items unless told otherwise, which shows what there is and costs little
  /// where nothing is sparse.
  explicit form_choice(route begin = {},
                       std::vector<form> forms = {form::none, form::union_of_items, form::gather, form::lhc})
      : now_(begin), forms_(std::move(forms)) {}

  /// In use now.
  route now() const { return now_; }
  /// A sum by the route in use has taken so long. Returns the route for the next ones: another one if it is predicted
  /// to be faster by more than a tenth. `hidden`: that would gain nothing, so the route is kept.
  route take(double seconds, const form_load& load, bool hidden = false);
  /// The seconds that a sum by this route is predicted to take; before the first measurement, none.
  std::optional<double> predict(route by, const form_load& load) const;

private:
  route fastest(double seconds, const form_load& load) const;

  route now_;
  std::vector<form> forms_;
  std::array<std::optional<double>, 8> seconds_a_byte_; ///< by route
  trial_pause pause_;
};

/// Whether plain buckets go through servers or in a ring, by how long a step waits for all of them. Backward hides a
/// part of the exchange, so waits change with batch sizes, and say less than those of form_choice: a way is kept where
/// a twentieth of the step or less is waited for.
class way_choice {
public:
  explicit way_choice(bool by_servers) : choice_({form::none, by_servers}, {form::none}) {}

  bool by_servers() const { return choice_.now().by_servers; }
  /// So long was waited in a step of so long. Returns whether the next ones go the other way.
  bool take(double wait_seconds, double step_seconds, const form_load& load);
  /// Of the way in use; before the first measurement, none.
  std::optional<double> predict(const form_load& load) const { return choice_.predict(choice_.now(), load); }

private:
  form_choice choice_;
};

} // namespace dynamix::exchange
