#pragma once

/// Certificates as values: making an authority, issuing a host's certificate, reading what one says. Ed25519 and X.509
/// by OpenSSL; no file is touched.

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::links {

/// A private key and the certificate for it, both as PEM text.
struct credential {
  std::string certificate;
  std::string key;
};

/// Unix seconds, both ends included.
struct validity {
  std::int64_t from_seconds = 0;
  std::int64_t until_seconds = 0;
};

constexpr std::int64_t day_seconds = 86400;

/// From a day before `now_seconds`, since clocks differ, to `days` after it.
validity valid_for_days(std::int64_t now_seconds, std::int64_t days);

/// What a certificate says.
struct certificate_facts {
  std::string name;        ///< of its host; empty for an authority
  std::string subject;     ///< as text for a person
  std::string fingerprint; ///< SHA-256 of the certificate, 64 hexadecimal digits
  validity valid;
  bool is_authority = false;
};

/// A new authority that may issue certificates of hosts and nothing else. Throws std::runtime_error where OpenSSL has
/// no memory or no random numbers.
credential make_authority(const std::string& cluster, const validity& valid);

/// A new key and its certificate for `host`, both as TLS client and server. Returns an empty string, or what is wrong
/// with `authority`.
std::string issue_certificate(const credential& authority, const std::string& host, const validity& valid,
                              credential& issued);

/// The certificates of a PEM text, in its order. Empty where it holds none.
std::vector<certificate_facts> read_certificates(const std::string& pem);

/// A moment as "2026-11-22 15:30 UTC".
std::string time_text(std::int64_t unix_seconds);

} // namespace dynamix::links
