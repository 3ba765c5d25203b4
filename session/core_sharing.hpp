#pragma once

/// Whether members of a training share cores: where they do, samples taken from one make another faster, and shares
/// that follow paces chase each other. Measured, not guessed from addresses: two members on cores of their own may have
/// one address, and two containers of one host have two. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::session {

/// What one member tells of the cores that it computes on, in its rows.
struct core_use {
  std::uint32_t set = 0;            ///< a hash of the machine and of the CPUs that it may use; 0: of its own
  std::uint16_t cpus = 0;           ///< of them; 0: not measured yet
  std::uint16_t demand_percent = 0; ///< of one CPU that its threads ran on or waited for, in the mean of some steps
};

/// As one number, which a row has a column for; every number is a use.
std::uint64_t encode_core_use(const core_use& use);
core_use decode_core_use(std::uint64_t number);

/// The CPUs that one member shares with others.
struct shared_cores {
  std::uint32_t set = 0;
  std::uint32_t cpus = 0; ///< 0: it shares none
  double demand = 0;      ///< CPUs that all who share them would keep busy together
};

/// For each member, in their order; nothing while somebody has not measured.
/// Two or more members share cores where they may use the same CPUs and would keep busy a quarter more of them than
/// there are: a thread now and then beside those that compute is not sharing. What one of them says counts as no more
/// than these CPUs. Members whose CPUs are others, but not all of them, count as apart.
std::optional<std::vector<shared_cores>> judge_cores(std::span<const core_use> members);

/// For a person: with whom `member` shares which cores; empty where it shares none.
std::string describe_sharing(std::span<const shared_cores> members, std::size_t member);

} // namespace dynamix::session
