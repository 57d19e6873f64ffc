#include "publishers/rabbitmq/amqp_tls.h"

#include <amqp_ssl_socket.h>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "publishers/wire/tls_files.h"

namespace outbox {

namespace {

void note_expiry(X509* certificate, TlsVerdict& verdict) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return;
  const std::chrono::sys_seconds expires{std::chrono::seconds{::timegm(&end)}};
  verdict.expires = std::min(verdict.expires.value_or(expires), expires);
}

// Called by OpenSSL for each certificate of the chain.
int judge(int accepted, X509_STORE_CTX* store) {
  const auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& verdict = *static_cast<TlsVerdict*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (accepted == 0) {
    verdict.why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(store));
  } else if (X509* certificate = X509_STORE_CTX_get_current_cert(store)) {
    note_expiry(certificate, verdict);
  }
  return accepted;
}

bool expect_name(SSL_CTX* context, const std::string& name) {
  X509_VERIFY_PARAM* parameters = SSL_CTX_get0_param(context);
  if (is_address(name)) return X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1;
  X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1;
}

}  // namespace

amqp_socket_t* new_tls_socket(amqp_connection_state_t connection, const TlsSettings& settings,
                              const std::string& host, TlsVerdict& verdict, std::string& error) {
  amqp_socket_t* socket = amqp_ssl_socket_new(connection);
  if (socket == nullptr) {
    error = "TLS can't be set up: out of memory";
    return nullptr;
  }
  amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
  auto* context = static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket));
  error = describe(load_tls_files(context, settings));
  if (!error.empty()) return nullptr;
  if (!expect_name(context, settings.server_name.empty() ? host : settings.server_name)) {
    error = fmt::format("TLS can't be set up: {}", take_ssl_error());
    return nullptr;
  }
  amqp_ssl_socket_set_verify_hostname(socket, 0);
  SSL_CTX_set_app_data(context, &verdict);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, judge);
  return socket;
}

std::vector<SettingDefect> amqp_tls_files_defects(const TlsSettings& settings) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  if (!context) return {{"url", fmt::format("TLS can't be set up: {}", take_ssl_error())}};
  return load_tls_files(context.get(), settings);
}

}  // namespace outbox
