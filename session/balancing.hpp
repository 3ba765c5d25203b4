#pragma once

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

namespace dynamix::session {

/// What the workers of this cluster file do between two decisions.
inline messages::balancing balancing_of(const cluster::cluster_file& file) {
  if (!file.balances())
    return messages::balancing::off;
  return file.arbitrator.policy == cluster::policy_kind::stigmergic ? messages::balancing::all
                                                                    : messages::balancing::shares;
}

} // namespace dynamix::session
