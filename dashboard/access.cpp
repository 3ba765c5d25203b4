#include "dashboard/access.hpp"

#include "cluster/cluster_file.hpp"
#include "links/private_file.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace dynamix::dashboard {
namespace {

constexpr std::string_view cookie_name = "dynamix_session=";

std::string cookie_value(const std::string& cookies) {
  for (std::size_t begin = 0; begin < cookies.size();) {
    const auto end = std::min(cookies.find(';', begin), cookies.size());
    auto one = std::string_view(cookies).substr(begin, end - begin);
    while (one.starts_with(' '))
      one.remove_prefix(1);
    if (one.starts_with(cookie_name))
      return std::string(one.substr(cookie_name.size()));
    begin = end + 1;
  }
  return "";
}

} // namespace

std::string read_token(const std::string& path, std::string& token) {
  if (auto problem = links::read_secret_file(path, token); !problem.empty())
    return problem;
  if (token.size() < token_bytes_min || token.size() > token_bytes_max)
    return fmt::format("{} holds {} characters; a token has {} to {} (openssl rand -hex 32 makes one)", path,
                       token.size(), token_bytes_min, token_bytes_max);
  if (!std::ranges::all_of(token, [](unsigned char letter) { return letter > ' ' && letter < 127; }))
    return path + " must hold one line of printable ASCII without blanks";
  return "";
}

std::string session_of(const std::string& token) {
  static constexpr char purpose[] = "dynamix dashboard session 1";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  ::HMAC(::EVP_sha256(), token.data(), static_cast<int>(token.size()), reinterpret_cast<const unsigned char*>(purpose),
         sizeof purpose - 1, digest, &size);
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

bool same_text(const std::string& left, const std::string& right) {
  return left.size() == right.size() && ::CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

bool is_authorised(const std::string& authorization, const std::string& cookie, const std::string& token) {
  static const std::string scheme = "Bearer ";
  if (authorization.starts_with(scheme))
    return same_text(authorization.substr(scheme.size()), token);
  return same_text(cookie_value(cookie), session_of(token));
}

bool names_loopback(const std::string& host_header) {
  auto name = host_header;
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    if (end == std::string::npos || (end + 1 < name.size() && name[end + 1] != ':'))
      return false;
    return cluster::is_loopback(name.substr(1, end - 1));
  }
  name = name.substr(0, name.find(':'));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  });
  return cluster::is_loopback(name);
}

} // namespace dynamix::dashboard
