#pragma once

/// The directory that `dynamix-node keys` keeps, one for a cluster:
///
///     README.txt                                  what to copy where
///     authority/ca.crt, ca.key                    signs hosts' certificates; its place is not on the hosts
///     authority/next.crt, next.key                while a rotation has been begun
///     authority/previous.crt                      while a rotation is not finished
///     hosts/NAME/ca.crt, host.crt, host.key       what host NAME needs, and nothing of the others
///
/// Directories have mode 0700, files 0600.

#include "links/certificate.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::links {

struct key_request {
  std::string cluster;
  std::vector<std::string> hosts;
  std::int64_t now_seconds = 0; ///< Unix
  std::int64_t host_days = 365;
  std::int64_t authority_days = 3650;
};

/// Where host `host` finds what it needs below `directory`.
std::string host_directory(const std::string& directory, const std::string& host);

/// Makes the directory with an authority and a certificate for each host. Returns an empty string, or what went wrong;
/// a directory that holds anything is refused.
std::string make_keys(const std::string& directory, const key_request& request);

/// Makes the hosts' directories alone, by an authority whose key is not kept: for a run on one machine that ends with
/// it, whatever its clock says until then. Replaces what is there.
std::string make_passing_keys(const std::string& directory, const key_request& request);

/// A new key and certificate for `host`, which need not have had one. The one before stays valid until it expires or
/// the authority is rotated.
std::string issue_keys(const std::string& directory, const std::string& host, const key_request& request);

/// The three steps of a rotation. Between two of them the hosts' directories are copied to all hosts, and any two hosts
/// understand each other, whichever step either has seen.
enum class rotation_step {
  introduced, ///< hosts accept a second authority; their certificates are still of the first
  switched,   ///< hosts have certificates of the second, and accept both
  finished    ///< hosts accept the second alone: certificates of the first are worthless
};

/// Makes the next step. Returns an empty string, or what went wrong.
std::string rotate_keys(const std::string& directory, const key_request& request, rotation_step& made);

/// A certificate of the directory.
struct listed_certificate {
  std::string path; ///< below the directory
  certificate_facts facts;
};
/// The authorities first, then the hosts by name. Returns an empty string, or what went wrong.
std::string list_keys(const std::string& directory, std::vector<listed_certificate>& found);

} // namespace dynamix::links
