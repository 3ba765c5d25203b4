#include "links/tls_identity.hpp"

#include "links/identity.hpp"
#include "links/pump.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/core.h>
#include <openssl/err.h>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace dynamix::links {
namespace {

constexpr std::size_t peer_certificates_bytes_max = 16384;

peer_check& check_of(const SSL* session) {
  return *static_cast<peer_check*>(SSL_get_app_data(session));
}

std::string describe_certificate_error(int code, const X509* certificate) {
  const auto valid_until = [&](const ASN1_TIME* time) {
    std::tm broken_down{};
    return ASN1_TIME_to_tm(time, &broken_down) == 1 ? time_text(timegm(&broken_down))
                                                    : std::string("an unreadable time");
  };
  switch (code) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    return fmt::format("its certificate expired on {}, or this clock is wrong",
                       valid_until(X509_get0_notAfter(certificate)));
  case X509_V_ERR_CERT_NOT_YET_VALID:
    return fmt::format("its certificate is not valid before {}: this clock or the issuer's is wrong",
                       valid_until(X509_get0_notBefore(certificate)));
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
  case X509_V_ERR_CERT_CHAIN_TOO_LONG:
    return "its certificate was issued by an authority that this host does not accept";
  default:
    return fmt::format("its certificate is refused: {}", X509_verify_cert_error_string(code));
  }
}

/// Why `name` may not connect; empty: it may.
std::string explain_rule(const peer_check& check, const std::string& name) {
  if (!check.rule)
    return "it asked for no protocol";
  const auto& rule = (*check.rules)[*check.rule];
  if (rule.accepts_all || rule.accepted.contains(name))
    return "";
  return fmt::format("host \"{}\" may not connect to this one with {}", name, rule.listed.substr(1));
}

/// Called for each certificate of the chain, the peer's own last.
int verify(int accepted, X509_STORE_CTX* store) {
  const auto* session =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& check = check_of(session);
  const auto* certificate = X509_STORE_CTX_get_current_cert(store);
  if (accepted != 1) {
    check.problem = describe_certificate_error(X509_STORE_CTX_get_error(store), certificate);
    return 0;
  }
  if (X509_STORE_CTX_get_error_depth(store) != 0)
    return 1;
  auto name = name_of(certificate);
  if (name.empty())
    check.problem = "its certificate names no host";
  else if (check.rules != nullptr)
    check.problem = explain_rule(check, name);
  else if (name != check.expected)
    check.problem = fmt::format("it is host \"{}\", and \"{}\" was called", name, check.expected);
  if (!check.problem.empty()) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
  }
  check.name = std::move(name);
  return 1;
}

constexpr const char* data_differs = "security.data must be the same on all hosts";

/// Why a peer is refused that offers none but `offered`; empty: it is not known.
std::string explain_protocols(const protocol_rules& rules, std::string_view offered) {
  const auto takes = [&](const char* protocol) {
    return std::ranges::find(rules, listed(protocol), &protocol_rule::listed) != rules.end();
  };
  if (takes(gradient_protocol) && offered == listed(clear_gradient_protocol))
    return fmt::format("it sends gradients in the clear, and this host encrypts them: {}", data_differs);
  if (takes(clear_gradient_protocol) && offered == listed(gradient_protocol))
    return fmt::format("it encrypts gradients, and this host sends them in the clear: {}", data_differs);
  for (const auto* known : {control_protocol, raft_protocol, gradient_protocol, clear_gradient_protocol})
    if (offered == listed(known))
      return fmt::format("it asked for {}, for which this host takes no links", known);
  return "";
}

int choose_protocol(SSL* session, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  auto& check = check_of(session);
  for (std::size_t i = 0; i < check.rules->size(); ++i) {
    const auto& ours = (*check.rules)[i].listed;
    unsigned char* found = nullptr;
    if (SSL_select_next_proto(&found, chosen_size, reinterpret_cast<const unsigned char*>(ours.data()),
                              static_cast<unsigned int>(ours.size()), offered,
                              offered_size) == OPENSSL_NPN_NEGOTIATED) {
      check.rule = i;
      *chosen = found;
      return SSL_TLSEXT_ERR_OK;
    }
  }
  check.problem = explain_protocols(*check.rules, {reinterpret_cast<const char*>(offered), offered_size});
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

} // namespace

std::string listed(const std::string& protocol) {
  return static_cast<char>(protocol.size()) + protocol;
}

tls_identity::tls_identity(std::string directory, std::string host, const std::string& protocol)
    : directory_(std::move(directory)), host_(std::move(host)), protocol_(listed(protocol)) {}

std::string tls_identity::stamp() const {
  std::string text;
  for (const auto* file : {authorities_file, certificate_file, key_file}) {
    struct ::stat status {};
    if (::stat((directory_ + "/" + file).c_str(), &status) == 0)
      text += fmt::format("{} {} {}.{} ", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  }
  return text;
}

std::string tls_identity::load() {
  stamp_ = stamp();
  identity own;
  if (auto problem = read_identity(directory_, host_, std::time(nullptr), own); !problem.empty())
    return problem;
  decltype(context_) context(SSL_CTX_new(TLS_method()));
  const auto certificates = parse_certificates(own.own.certificate);
  const auto key = parse_key(own.own.key);
  bool complete = context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  SSL_CTX_use_certificate(context.get(), certificates.front().get()) == 1 &&
                  SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                  SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  for (const auto& authority : parse_certificates(own.authorities))
    complete = complete && X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1;
  if (!complete)
    return "OpenSSL refuses the keys in " + directory_ + ": " + take_openssl_error();
  auto* made = context.get();
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
  SSL_CTX_set_verify_depth(made, 0); // an authority signs hosts, and nothing between
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(made, 1); // half the reads; whoever waits asks for what lies in the session first
  SSL_CTX_set_max_cert_list(made, peer_certificates_bytes_max);
  SSL_CTX_set_alpn_select_cb(made, choose_protocol, nullptr);
  context_ = std::move(context);
  return "";
}

std::string tls_identity::refresh(std::chrono::steady_clock::time_point now) {
  if (now - looked_ < std::chrono::seconds(1))
    return "";
  looked_ = now;
  return stamp() == stamp_ ? "" : load();
}

ssl_handle tls_identity::make_session(int socket, bool accepts, peer_check& check) const {
  ssl_handle session(SSL_new(context_.get()));
  if (!session || SSL_set_fd(session.get(), socket) != 1 || SSL_set_app_data(session.get(), &check) != 1)
    return nullptr;
  if (accepts) {
    SSL_set_accept_state(session.get());
  } else {
    SSL_set_connect_state(session.get());
    const auto* protocol = reinterpret_cast<const unsigned char*>(protocol_.data());
    if (SSL_set_alpn_protos(session.get(), protocol, static_cast<unsigned int>(protocol_.size())) != 0)
      return nullptr;
  }
  return session;
}

std::string explain_failure(const peer_check& check) {
  const auto code = ERR_peek_error(); // the first is the cause
  const int reason = ERR_GET_REASON(code);
  const bool by_tls = code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL;
  auto text = take_openssl_error();
  if (!check.problem.empty())
    return check.problem;
  if (!by_tls)
    return closed_by_peer;
  if (reason == SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL)
    return fmt::format("it speaks another protocol than this host (where that is of gradients, {})", data_differs);
  if (reason > SSL_AD_REASON_OFFSET)
    return fmt::format("it refused this host: {}", SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
  switch (reason) {
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return "it showed no certificate";
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_WRONG_VERSION_NUMBER:
    return "it does not speak TLS 1.3";
  case SSL_R_NO_APPLICATION_PROTOCOL:
    return "it asked for another protocol";
  case SSL_R_UNEXPECTED_EOF_WHILE_READING:
    return closed_by_peer;
  default:
    return text;
  }
}

} // namespace dynamix::links
