#include "links/certificate.hpp"

#include "links/openssl_handles.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <stdexcept>

namespace dynamix::links {
namespace {

constexpr int serial_bytes = 16; // of at most 20 (RFC 5280, 4.1.2.2)

void require(bool succeeded, const char* what) {
  if (!succeeded)
    throw std::runtime_error(std::string("cannot ") + what + ": " + take_openssl_error());
}

std::string text_of(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return {data, static_cast<std::size_t>(size)};
}

credential to_pem(X509* certificate, EVP_PKEY* key) {
  const bio_handle certificate_text(BIO_new(BIO_s_mem()));
  const bio_handle key_text(BIO_new(BIO_s_secmem()));
  require(certificate_text && key_text && PEM_write_bio_X509(certificate_text.get(), certificate) == 1 &&
              PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "write a certificate as PEM");
  return {.certificate = text_of(certificate_text.get()), .key = text_of(key_text.get())};
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  auto* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  require(added, "extend a certificate");
}

void add_name(X509_NAME* name, const char* field, const std::string& text) {
  require(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()), -1, 0) == 1,
          "name a certificate's subject");
}

/// Everything but its names, extensions and signature.
certificate_handle begin_certificate(EVP_PKEY* key, const validity& valid) {
  certificate_handle certificate(X509_new());
  std::array<unsigned char, serial_bytes> serial{};
  require(certificate && RAND_bytes(serial.data(), serial.size()) == 1, "draw a serial number");
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7F) | 0x40); // positive, and never shorter
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  const bool numbered =
      number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get())) != nullptr;
  BN_free(number);
  constexpr long version_3 = 2;
  require(numbered && X509_set_version(certificate.get(), version_3) == 1 &&
              ASN1_TIME_set(X509_getm_notBefore(certificate.get()), valid.from_seconds) != nullptr &&
              ASN1_TIME_set(X509_getm_notAfter(certificate.get()), valid.until_seconds) != nullptr &&
              X509_set_pubkey(certificate.get(), key) == 1,
          "fill in a certificate");
  return certificate;
}

key_handle make_key() {
  key_handle key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  require(key != nullptr, "make an Ed25519 key");
  return key;
}

std::int64_t unix_seconds(const ASN1_TIME* time) {
  std::tm broken_down{};
  return ASN1_TIME_to_tm(time, &broken_down) == 1 ? static_cast<std::int64_t>(timegm(&broken_down)) : 0;
}

std::string fingerprint_of(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  require(X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1, "digest a certificate");
  static constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 0xF];
  }
  return text;
}

std::string subject_of(const X509* certificate) {
  const bio_handle text(BIO_new(BIO_s_mem()));
  constexpr unsigned long one_line_escaped = XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB;
  require(text && X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, one_line_escaped) >= 0,
          "print a certificate's subject");
  return text_of(text.get());
}

} // namespace

std::string take_openssl_error() {
  const auto code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "OpenSSL gives no reason" : reason;
}

std::vector<certificate_handle> parse_certificates(const std::string& pem) {
  std::vector<certificate_handle> found;
  const bio_handle text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (auto* certificate = text ? PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr) : nullptr)
    found.emplace_back(certificate);
  ERR_clear_error(); // the end of the text is one
  return found;
}

key_handle parse_key(const std::string& pem) {
  const bio_handle text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const auto refuse_passphrase = [](char*, int, int, void*) { return -1; };
  key_handle key(text ? PEM_read_bio_PrivateKey(text.get(), nullptr, refuse_passphrase, nullptr) : nullptr);
  ERR_clear_error();
  return key;
}

std::string name_of(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string found;
  if (names != nullptr && sk_GENERAL_NAME_num(names) == 1) {
    int kind = 0;
    const auto* value =
        static_cast<const ASN1_IA5STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, 0), &kind));
    if (kind == GEN_DNS)
      found.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                   static_cast<std::size_t>(ASN1_STRING_length(value)));
  }
  GENERAL_NAMES_free(names);
  return found.find('\0') == std::string::npos ? found : "";
}

validity valid_for_days(std::int64_t now_seconds, std::int64_t days) {
  return {.from_seconds = now_seconds - day_seconds, .until_seconds = now_seconds + days * day_seconds};
}

credential make_authority(const std::string& cluster, const validity& valid) {
  const auto key = make_key();
  const auto certificate = begin_certificate(key.get(), valid);
  auto* own = certificate.get();
  auto* name = X509_get_subject_name(own);
  add_name(name, "O", cluster);
  add_name(name, "CN", "authority of " + time_text(valid.from_seconds + day_seconds).substr(0, 10));
  require(X509_set_issuer_name(own, name) == 1, "name an authority");
  extend(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(own, own, NID_key_usage, "critical,keyCertSign");
  extend(own, own, NID_subject_key_identifier, "hash");
  require(X509_sign(own, key.get(), nullptr) > 0, "sign an authority's certificate");
  return to_pem(own, key.get());
}

std::string issue_certificate(const credential& authority, const std::string& host, const validity& valid,
                              credential& issued) {
  const auto issuers = parse_certificates(authority.certificate);
  const auto issuer_key = parse_key(authority.key);
  if (issuers.empty() || X509_check_ca(issuers.front().get()) != 1)
    return "it holds no authority's certificate";
  if (!issuer_key || X509_check_private_key(issuers.front().get(), issuer_key.get()) != 1)
    return "its key does not belong to its certificate";
  auto* issuer = issuers.front().get();
  const auto key = make_key();
  const auto certificate = begin_certificate(key.get(), valid);
  auto* own = certificate.get();
  add_name(X509_get_subject_name(own), "CN", host);
  require(X509_set_issuer_name(own, X509_get_subject_name(issuer)) == 1, "name an issuer");
  extend(own, issuer, NID_basic_constraints, "critical,CA:FALSE");
  extend(own, issuer, NID_key_usage, "critical,digitalSignature");
  extend(own, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  extend(own, issuer, NID_subject_alt_name, "DNS:" + host);
  extend(own, issuer, NID_authority_key_identifier, "keyid:always");
  require(X509_sign(own, issuer_key.get(), nullptr) > 0, "sign a host's certificate");
  issued = to_pem(own, key.get());
  return "";
}

std::vector<certificate_facts> read_certificates(const std::string& pem) {
  std::vector<certificate_facts> found;
  for (const auto& certificate : parse_certificates(pem)) {
    auto* own = certificate.get();
    found.push_back({.name = name_of(own),
                     .subject = subject_of(own),
                     .fingerprint = fingerprint_of(own),
                     .valid = {.from_seconds = unix_seconds(X509_get0_notBefore(own)),
                               .until_seconds = unix_seconds(X509_get0_notAfter(own))},
                     .is_authority = X509_check_ca(own) == 1});
  }
  return found;
}

std::string time_text(std::int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &utc);
  return text.data();
}

bool is_signed_by(X509* certificate, const std::vector<certificate_handle>& authorities) {
  const bool found = std::ranges::any_of(authorities, [&](const auto& authority) {
    auto* key = X509_get0_pubkey(authority.get());
    return X509_check_ca(authority.get()) == 1 && key != nullptr && X509_verify(certificate, key) == 1;
  });
  take_openssl_error(); // of those that have not
  return found;
}

} // namespace dynamix::links
