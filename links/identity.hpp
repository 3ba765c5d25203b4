#pragma once

/// What a host proves itself with, as files in its own directory, and every reason why they are not to be used.

#include "links/certificate.hpp"

#include <cstdint>
#include <string>

namespace dynamix::links {

// The names of the files in a host's directory.
constexpr const char* authorities_file = "ca.crt";
constexpr const char* certificate_file = "host.crt";
constexpr const char* key_file = "host.key";

/// Before a certificate's end, for so long, people are told to renew it.
constexpr std::int64_t renew_before_seconds = 30 * day_seconds;

struct identity {
  std::string host;
  std::string authorities; ///< PEM of those whose certificates this host accepts; two while they are rotated
  credential own;
};

/// Reads the three files of `directory`, which must belong to `host`: modes, key and certificate together, name,
/// authority, and time as of `now_seconds` (Unix). Returns an empty string, or what is wrong and what to do.
std::string read_identity(const std::string& directory, const std::string& host, std::int64_t now_seconds,
                          identity& read);

/// Reads what a server shows clients that need no certificate: a certificate, its chain behind it, and its key, of any
/// kind and issuer. Only the key must be private. Returns an empty string, or what is wrong.
std::string read_server_keys(const std::string& certificate_path, const std::string& key_path, std::int64_t now_seconds,
                             credential& read);

/// Why a certificate is not valid at `now_seconds`, as the end of a sentence that begins with its name; empty if it is.
std::string time_problem(const validity& valid, std::int64_t now_seconds);

/// What to tell a person of a certificate that ends soon; empty where there is nothing to tell.
std::string renewal_warning(const certificate_facts& facts, std::int64_t now_seconds);

} // namespace dynamix::links
