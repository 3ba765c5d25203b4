#pragma once

/// Who sums gradients and how, how much of them each host sums where servers do, and how long that takes beside a ring.
/// Pure, and knows no cluster file. (BytePS, OSDI'20, section 4.1, for links of any rates; equal ones give its
/// theorem 1.)

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace dynamix::cluster {

/// How sparse gradients are summed (exchange/compression.hpp).
enum class compression_kind : std::uint8_t { none, union_of_items, gather, lhc, automatic };
/// Who sums gradients: the workers in a ring, all of them and the hosts that only serve as servers of a share each that
/// their links allow, or the faster of the two: as predicted at first, and then as measured.
enum class exchange_kind : std::uint8_t { ring, parameter_server, automatic };

struct exchange_host {
  double link_rate = 0;                                      ///< bytes per second each way, > 0
  double sum_rate = std::numeric_limits<double>::infinity(); ///< bytes of others' gradients that it adds a second, > 0
  bool works = true;                                         ///< brings gradients
  bool serves = true;                                        ///< may sum a share of them
};

/// What keeps servers from being faster.
enum class exchange_bound : std::uint8_t {
  none,         ///< there is nobody to exchange with
  worker_link,  ///< the slowest worker's link, over which all gradients go once each way
  server_links, ///< all links together
  server_sums,  ///< how fast servers add
};
std::string_view to_string(exchange_bound value);

struct server_plan {
  std::vector<double> shares;       ///< of the gradients, by host; they sum to 1
  double seconds_per_byte = 0;      ///< of gradients: predicted for these shares
  double ring_seconds_per_byte = 0; ///< and for a ring of the workers
  exchange_bound bound = exchange_bound::none;
  std::size_t slowest = 0; ///< the worker whose link is the slowest

  bool operator==(const server_plan&) const = default;
};

/// The shares with the shortest exchange. With M bytes of gradients and n workers, a worker at rate r that sums a share
/// w moves M(1 + (n-2)w) each way, a host that only serves n w M. So in T seconds a worker takes on at most
/// (T r/M - 1)/(n-2), a server T R/(nM), either no more than it can add, and T is the shortest in which the shares
/// reach 1, but not below M/min r. A ring takes 2(n-1)/n M/min r. At least one host works and one serves.
server_plan plan_servers(std::span<const exchange_host> hosts);

/// The seconds of a byte of gradients where these hosts, of whom at least two work, sum these shares, which sum to 1:
/// of the host that takes the longest.
double seconds_per_byte(std::span<const exchange_host> hosts, std::span<const double> shares);

/// Whether servers are to be taken rather than a ring. They must promise to be faster by a tenth: the prediction is not
/// more exact.
bool pays(const server_plan& plan);

/// Measured rates of which those within a quarter of each other are made equal, since they may differ by chance.
std::vector<double> even_out(std::span<const double> rates);

/// plan_servers for links whose rates were measured.
server_plan plan_measured(std::vector<exchange_host> hosts);

} // namespace dynamix::cluster
