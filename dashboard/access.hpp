#pragma once

/// Who may read the page. Pure but for reading the token's file.

#include <string>

namespace dynamix::dashboard {

inline constexpr std::size_t token_bytes_min = 16;
inline constexpr std::size_t token_bytes_max = 1024;

/// Reads the bearer token: one line of printable ASCII without blanks, in a file that only its owner may read. Returns
/// an empty string, or what is wrong.
std::string read_token(const std::string& path, std::string& token);

/// What a browser holds once it has shown the token: derived from it, so that the cookie, which other servers of the
/// host may see, does not tell it.
std::string session_of(const std::string& token);

/// Whether the headers prove knowledge of the token: "Authorization: Bearer TOKEN", or the session's cookie.
bool is_authorised(const std::string& authorization, const std::string& cookie, const std::string& token);

/// Whether two texts are the same, in a time that does not tell where they differ.
bool same_text(const std::string& left, const std::string& right);

/// Whether a Host header names this machine's loopback (127.0.0.0/8, ::1, localhost), with any port. Another name
/// reaches a loopback listener only where a foreign page has its own name resolve to it (DNS rebinding).
bool names_loopback(const std::string& host_header);

} // namespace dynamix::dashboard
