#pragma once

/// OpenSSL's objects with owners, and its errors as text. Included by this room's sources only.

#include <memory>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string>
#include <vector>

namespace dynamix::links {

template <auto Free>
struct freed_by {
  template <class Object>
  void operator()(Object* object) const {
    Free(object);
  }
};

using bio_handle = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using key_handle = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_handle = std::unique_ptr<X509, freed_by<X509_free>>;
using store_handle = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_handle = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;
using ssl_handle = std::unique_ptr<SSL, freed_by<SSL_free>>;

/// The newest error of this thread's queue, which is emptied.
std::string take_openssl_error();

/// The certificates of a PEM text, in its order; null entries never. Stops at the first that cannot be read.
std::vector<certificate_handle> parse_certificates(const std::string& pem);
/// Null where the text holds no private key that can be read without a passphrase.
key_handle parse_key(const std::string& pem);
/// The only DNS name of a certificate; empty where it has none, several, or one with other bytes than a host name's.
std::string name_of(const X509* certificate);
/// Whether one of `authorities` has signed it, whatever the time.
bool is_signed_by(X509* certificate, const std::vector<certificate_handle>& authorities);

} // namespace dynamix::links
