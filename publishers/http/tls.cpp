#include "publishers/http/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>

namespace outbox {

namespace {

using Defects = std::vector<SettingDefect>;

struct NewContext {
  SslContextPointer context;
  Defects defects;
};

NewContext new_context(const TlsSettings& settings) {
  NewContext made;
  ERR_clear_error();
  made.context.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* context = made.context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    made.defects.push_back({"url", fmt::format("TLS can't be set up: {}", take_ssl_error())});
    return made;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(context, kHttp11.data(), kHttp11.size());
  made.defects = load_tls_files(context, settings);
  return made;
}

// Whom the certificate must name, and whom to ask for where one address serves several names.
bool expect_name(SSL* ssl, const std::string& name) {
  if (is_address(name)) {
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  }
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(ssl, name.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
}

}  // namespace

std::vector<SettingDefect> tls_files_defects(const TlsSettings& settings) {
  return new_context(settings).defects;
}

TlsContext::TlsContext(const TlsSettings& settings, const std::string& host)
    : settings_(settings),
      name_(settings.server_name.empty() ? host : settings.server_name),
      files_({settings.ca_file, settings.cert_file, settings.key_file}) {
  std::string told_when_used;
  reload_if_changed(told_when_used);
}

void TlsContext::reload_if_changed(std::string& error) {
  if (!files_.changed()) return;
  NewContext made = new_context(settings_);
  if (made.defects.empty()) {
    context_ = std::move(made.context);
    files_.accept();
  } else if (!context_) {
    error = describe(made.defects);
  }
}

SslPointer TlsContext::new_session(int socket, std::string& error) {
  const std::lock_guard lock(mutex_);
  reload_if_changed(error);
  if (!context_) return nullptr;
  ERR_clear_error();
  SslPointer ssl(SSL_new(context_.get()));
  if (!ssl || !expect_name(ssl.get(), name_) || SSL_set_fd(ssl.get(), socket) != 1) {
    error = fmt::format("TLS can't be set up: {}", take_ssl_error());
    return nullptr;
  }
  SSL_set_connect_state(ssl.get());
  return ssl;
}

}  // namespace outbox
