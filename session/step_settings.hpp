#pragma once

/// What the cluster file says of every step, as it stands in messages.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

namespace dynamix::session {

/// The cluster file's rule as it stands in messages.
constexpr messages::rate_rule rate_rule_of(cluster::learning_rate_rule rule) {
  switch (rule) {
  case cluster::learning_rate_rule::constant:
    return messages::rate_rule::constant;
  case cluster::learning_rate_rule::linear:
    return messages::rate_rule::linear;
  case cluster::learning_rate_rule::square_root:
    return messages::rate_rule::square_root;
  case cluster::learning_rate_rule::adascale:
    return messages::rate_rule::adascale;
  }
  return messages::rate_rule::unspecified;
}

/// What the workers of this cluster file do between two decisions.
inline messages::balancing balancing_of(const cluster::cluster_file& file) {
  if (!file.balances())
    return messages::balancing::off;
  if (file.arbitrator.policy == cluster::policy_kind::stigmergic)
    return messages::balancing::all;
  return file.arbitrator.balance == cluster::balance_kind::automatic ? messages::balancing::automatic
                                                                     : messages::balancing::shares;
}

} // namespace dynamix::session
