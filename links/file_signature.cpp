#include "links/file_signature.hpp"

#include "links/identity.hpp"
#include "links/openssl_handles.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace dynamix::links {
namespace {

constexpr std::string_view format = "dynamix-signature-1\n";
constexpr std::size_t signature_bytes = 64;
constexpr std::size_t signature_file_bytes_max = 16384;

using digest_context = std::unique_ptr<EVP_MD_CTX, freed_by<EVP_MD_CTX_free>>;

/// What is signed: nothing that is signed for another purpose begins so.
std::vector<std::uint8_t> signed_text(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> text(format.begin(), format.end());
  text.resize(format.size() + SHA256_DIGEST_LENGTH);
  ::SHA256(bytes.data(), bytes.size(), text.data() + format.size());
  return text;
}

std::string sign(const identity& own, std::span<const std::uint8_t> bytes, std::string& text) {
  const auto key = parse_key(own.own.key);
  const digest_context context(EVP_MD_CTX_new());
  const auto message = signed_text(bytes);
  std::array<std::uint8_t, signature_bytes> signature{};
  auto size = signature.size();
  if (!key || !context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) != 1)
    return "OpenSSL cannot sign: " + take_openssl_error();
  text = fmt::format("{}{:02x}\n{}", format, fmt::join(signature, ""), own.own.certificate);
  return "";
}

/// Another once another file takes the path.
::ino_t number_of(const std::string& path) {
  struct ::stat file {};
  return ::stat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

/// 64 bytes of hexadecimal digits, or none.
std::vector<std::uint8_t> read_hexadecimal(std::string_view digits) {
  std::vector<std::uint8_t> bytes;
  long size = 0;
  const std::unique_ptr<unsigned char, decltype([](unsigned char* read) { OPENSSL_free(read); })> read(
      OPENSSL_hexstr2buf(std::string(digits).c_str(), &size));
  if (read && size == signature_bytes)
    bytes.assign(read.get(), read.get() + size);
  take_openssl_error();
  return bytes;
}

bool is_signature(X509* certificate, const std::vector<std::uint8_t>& signature, std::span<const std::uint8_t> bytes) {
  const digest_context context(EVP_MD_CTX_new());
  const auto message = signed_text(bytes);
  const bool good =
      context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, X509_get0_pubkey(certificate)) == 1 &&
      EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(), message.size()) == 1;
  take_openssl_error();
  return good;
}

} // namespace

storage::file_writer signing_writer(std::string directory, std::string host) {
  return [directory = std::move(directory),
          host = std::move(host)](const std::string& path, std::span<const std::uint8_t> bytes) -> std::string {
    const auto beside = path + storage::signature_suffix;
    const auto before = path + storage::former_signature_suffix;
    const auto file_before = number_of(path);
    const bool was_signed = ::rename(beside.c_str(), before.c_str()) == 0;
    if (auto problem = storage::write_private_file(path, bytes); !problem.empty()) {
      if (was_signed && number_of(path) == file_before) // which keeps its signature
        ::rename(before.c_str(), beside.c_str());
      return problem;
    }
    ::unlink(before.c_str()); // also that of a writer that was interrupted
    identity own;
    std::string text;
    if (auto problem = read_identity(directory, host, std::time(nullptr), own); !problem.empty())
      return path + " was written, but not signed: " + problem;
    if (auto problem = sign(own, bytes, text); !problem.empty())
      return path + " was written, but not signed: " + problem;
    return storage::write_private_file(beside, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
}

signature_check check_signature(const std::string& path, std::span<const std::uint8_t> bytes,
                                const std::string& directory, const std::string& host) {
  const auto beside = path + storage::signature_suffix;
  if (::access(beside.c_str(), F_OK) != 0)
    return {};
  std::string text;
  if (auto problem = storage::read_file(beside, signature_file_bytes_max, text); !problem.empty())
    return {.problem = problem};
  const std::string how = "; whoever trusts the file all the same removes " + beside;
  const auto end = text.find('\n', format.size());
  const auto signature = text.starts_with(format) && end != std::string::npos
                             ? read_hexadecimal(std::string_view(text).substr(format.size(), end - format.size()))
                             : std::vector<std::uint8_t>();
  const auto certificates =
      signature.empty() ? std::vector<certificate_handle>() : parse_certificates(text.substr(end));
  if (certificates.size() != 1)
    return {.problem = beside + " is not a signature" + how};
  identity own;
  if (auto problem = read_identity(directory, host, std::time(nullptr), own); !problem.empty())
    return {.problem = problem};
  const auto name = name_of(certificates.front().get());
  if (!is_signed_by(certificates.front().get(), parse_certificates(own.authorities)))
    return {.problem =
                fmt::format("{} was signed by a host \"{}\" of an authority that this one does not accept (it is of "
                            "another cluster, or older than a rotation){}",
                            path, name, how)};
  if (!is_signature(certificates.front().get(), signature, bytes))
    return {.problem = fmt::format("{} is not what host \"{}\" has signed: it was changed since{}", path, name, how)};
  return {.problem = "", .signer = name};
}

} // namespace dynamix::links
