#include "links/identity.hpp"

#include "links/openssl_handles.hpp"
#include "links/private_file.hpp"
#include "storage/atomic_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

namespace dynamix::links {
namespace {

constexpr std::size_t certificates_bytes_max = 65536;

std::string check_authorities(const std::string& path, const std::string& pem, std::int64_t now_seconds) {
  const auto facts = read_certificates(pem);
  if (facts.empty())
    return path + " holds no certificate";
  for (const auto& authority : facts)
    if (!authority.is_authority)
      return fmt::format("{} holds a certificate that is not an authority's ({})", path, authority.subject);
  std::string problem;
  for (const auto& authority : facts)
    if (problem = time_problem(authority.valid, now_seconds); problem.empty())
      return ""; // the others are on their way in or out
  return path + problem;
}

} // namespace

std::string time_problem(const validity& valid, std::int64_t now_seconds) {
  if (now_seconds < valid.from_seconds)
    return fmt::format(" is not valid before {}, and this clock says {}: this clock or the issuer's is wrong",
                       time_text(valid.from_seconds), time_text(now_seconds));
  if (now_seconds > valid.until_seconds)
    return fmt::format(" expired on {}, and this clock says {}", time_text(valid.until_seconds),
                       time_text(now_seconds));
  return "";
}

std::string renewal_warning(const certificate_facts& facts, std::int64_t now_seconds) {
  const auto who =
      facts.is_authority ? "the authority's certificate" : fmt::format("the certificate of host {}", facts.name);
  const auto how = facts.is_authority ? std::string("dynamix-node keys rotate")
                                      : fmt::format("dynamix-node keys issue --host {}", facts.name);
  if (auto problem = time_problem(facts.valid, now_seconds); !problem.empty())
    return fmt::format("{}{}; {}", who, problem, how);
  const auto left_seconds = facts.valid.until_seconds - now_seconds;
  if (left_seconds > renew_before_seconds)
    return "";
  return fmt::format("{} expires in {} days, on {}; {}", who, left_seconds / day_seconds,
                     time_text(facts.valid.until_seconds), how);
}

std::string read_identity(const std::string& directory, const std::string& host, std::int64_t now_seconds,
                          identity& read) {
  read = {.host = host, .authorities = {}, .own = {}};
  const auto at = [&](const char* file) { return directory + "/" + file; };
  for (auto& [file, text] : {std::pair(key_file, &read.own.key), std::pair(certificate_file, &read.own.certificate),
                             std::pair(authorities_file, &read.authorities)})
    if (auto problem = read_private_file(at(file), *text); !problem.empty())
      return ::access(at(file).c_str(), F_OK) == 0
                 ? problem
                 : fmt::format("{}; copy host {}'s files there, which dynamix-node keys init or keys issue makes",
                               problem, host);
  if (auto problem = check_authorities(at(authorities_file), read.authorities, now_seconds); !problem.empty())
    return problem;
  const auto key = parse_key(read.own.key);
  if (!key)
    return at(key_file) + " holds no private key that can be read; write it again with dynamix-node keys issue";
  const auto own = parse_certificates(read.own.certificate);
  if (own.size() != 1)
    return fmt::format("{} holds {} certificates; it must hold one", at(certificate_file), own.size());
  if (X509_check_private_key(own.front().get(), key.get()) != 1)
    return fmt::format("{} does not belong to the certificate beside it; copy both files again", at(key_file));
  if (const auto name = name_of(own.front().get()); name != host)
    return fmt::format("{} is the certificate of host \"{}\", and this is host \"{}\"; copy its own files here",
                       at(certificate_file), name, host);
  if (!is_signed_by(own.front().get(), parse_certificates(read.authorities)))
    return fmt::format("{} was issued by no authority of {}: one of the two is of another cluster, or older than a "
                       "rotation; copy both files again",
                       at(certificate_file), at(authorities_file));
  if (auto problem = time_problem(read_certificates(read.own.certificate).front().valid, now_seconds); !problem.empty())
    return fmt::format("{}{}; dynamix-node keys issue --host {} makes a new one", at(certificate_file), problem, host);
  return "";
}

std::string read_server_keys(const std::string& certificate_path, const std::string& key_path, std::int64_t now_seconds,
                             credential& read) {
  if (auto problem = storage::read_file(certificate_path, certificates_bytes_max, read.certificate); !problem.empty())
    return problem;
  if (auto problem = read_private_file(key_path, read.key); !problem.empty())
    return problem;
  const auto key = parse_key(read.key);
  if (!key)
    return key_path + " holds no private key that can be read without a passphrase";
  const auto chain = parse_certificates(read.certificate);
  if (chain.empty())
    return certificate_path + " holds no certificate (PEM)";
  if (X509_check_private_key(chain.front().get(), key.get()) != 1)
    return fmt::format("{} does not belong to the first certificate of {}", key_path, certificate_path);
  const auto problem = time_problem(read_certificates(read.certificate).front().valid, now_seconds);
  return problem.empty() ? "" : certificate_path + problem;
}

} // namespace dynamix::links
