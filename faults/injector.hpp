#pragma once

/// Carries planned faults out on the processes and connections of a local cluster, and gathers the evidence that they
/// bit.

#include "cluster/cluster_file.hpp"
#include "faults/namespaces.hpp"
#include "faults/proxy.hpp"
#include "faults/recovery.hpp"
#include "faults/schedule.hpp"
#include "faults/wall_clock.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dynamix::faults {

/// The hosts' processes, by name.
class victims {
public:
  virtual ~victims() = default;
  virtual pid_t id(const std::string& host) = 0; ///< 0: it has none now
  virtual void signal(const std::string& host, int number) = 0;
  /// A host that has no process yet.
  virtual void start(const std::string& host) = 0;
  /// Held down, a host that ends is not started again.
  virtual void hold_down(const std::string& host, bool held) = 0;
};

/// A control connection that goes through the proxy.
struct proxied_link {
  std::string from; ///< the host that dials
  std::string to;
  std::string name() const { return from + ">" + to; }
};

class injector {
public:
  /// Keeps the references. A process whose wall clock is to jump runs with the shim and its host's file
  /// (wall_clock.hpp).
  injector(const cluster::cluster_file& file, victims& hosts, proxy& links, std::vector<proxied_link> proxied,
           std::string run_directory);
  /// Partitions are made between these; kept.
  void use(namespaces& apart) { namespaces_ = &apart; }

  void begin(const planned_fault& fault);
  void end(const planned_fault& fault);
  /// To be called every few milliseconds with a monotonic clock's seconds.
  void look(double now_seconds);
  /// True: it has left as it was asked to, and is to be started again.
  bool process_ended(const std::string& host, bool by_signal, int number);
  /// Everything that can still tell has told: evidence of each fault, by number.
  void settle(std::vector<fault_record>& records);

private:
  /// One host of one fault.
  struct injury {
    planned_fault fault;
    std::string host;
    pid_t process = 0;
    bool active = true;
    bool over = false; ///< the fault has ended
    bool bit = false;
    std::string evidence;
    // slow
    bool stopped = false;
    double switch_seconds = 0;
    std::uint64_t stops = 0;
    // disk_full
    std::uint64_t bytes_before = 0;
    std::uint64_t writes_before = 0;
    std::uint64_t file_limit = 0;
    // clock_jump
    std::uint64_t reads_before = 0;
    // partition between namespaces
    std::uint64_t sent_before = 0;
    // connections: counters of each link at the beginning
    std::map<std::string, std::uint64_t> touched_before;
  };

  void begin_on(injury& of);
  void end_on(injury& of);
  void look_at_start(injury& of);
  void pace(injury& of, double now_seconds) const;
  void watch(injury& of) const;
  void fill_disk(injury& of, bool full) const;
  void shift_clock(injury& of, bool shifted);
  void break_links(injury& of);
  void set_apart(injury& of, bool apart) const;
  void mend_links(const injury& of);
  void look_at_links(injury& of) const;
  std::string wipe(const std::string& host) const;
  std::vector<std::pair<std::string, std::vector<way>>> links_of(const injury& of) const;

  const cluster::cluster_file& file_;
  victims& hosts_;
  proxy& proxy_;
  std::vector<proxied_link> proxied_;
  std::string run_directory_;
  namespaces* namespaces_ = nullptr;
  std::vector<injury> injuries_;
  std::map<std::string, wall_clock> clocks_; ///< of hosts whose clock has jumped
};

} // namespace dynamix::faults
