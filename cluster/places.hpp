#pragma once

/// The places of an open cluster: ranks behind those of the file's workers, for hosts that the file does not name. All
/// hosts count them, so that a rank means the same everywhere; who has one, the arbitrator's host knows.

#include "cluster/cluster_file.hpp"

#include <string>
#include <vector>

namespace dynamix::cluster {

/// 1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or digit.
bool is_host_name(const std::string& text);
/// Of a worker that may come to a place: a host's name, or that of one of several workers of it, as "guest/3".
bool is_worker_name(const std::string& text);

/// Whether a host stands for a place. It has no address, and a name that no host can have.
bool is_place(const host& one);

/// The file with a host for each place of its cluster, behind its own hosts: `workers_max` workers. Where the cluster
/// is not open, or they are there already, the file as it is. Neither the digest nor the file's text has places.
cluster_file with_places(cluster_file file);

/// How many workers' initial batch sizes make the first global batch, which the learning rate is meant for: all of a
/// listed cluster, and of an open one as many as training begins with, whoever comes when.
std::uint32_t base_workers(const cluster_file& file);

/// The file with the hosts that have come to its places, by rank as in `names`; places that nobody has had are gone.
cluster_file with_guests(cluster_file file, const std::vector<std::string>& names);

} // namespace dynamix::cluster
