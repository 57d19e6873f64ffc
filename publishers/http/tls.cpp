#include "publishers/http/tls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

namespace outbox {

namespace {

using Defects = std::vector<SettingDefect>;

struct NewContext {
  SslContextPointer context;
  Defects defects;
};

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

void add_defect(const char* setting, const std::string& file, const std::string& why,
                Defects& defects) {
  defects.push_back({setting, fmt::format("{} can't be loaded: {}", file, why), file});
}

// To open a pipe would wait for somebody to write to it, perhaps for ever.
bool is_pipe(const char* setting, const std::string& file, Defects& defects) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(file, ignored)) return false;
  add_defect(setting, file, "it is a pipe: name a file", defects);
  return true;
}

void load_authorities(SSL_CTX* context, const std::string& ca_file, Defects& defects) {
  if (!ca_file.empty()) {
    if (is_pipe("tls.caFile", ca_file, defects)) return;
    if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) == 1) return;
    return add_defect("tls.caFile", ca_file, take_ssl_error(), defects);
  }
  if (SSL_CTX_set_default_verify_paths(context) == 1) return;
  defects.push_back(
      {"tls.caFile", fmt::format("is not set, and the system's certificate authorities can't be "
                                 "loaded: {}",
                                 take_ssl_error())});
}

// There is nobody to ask for the password of a key, and OpenSSL would ask on the terminal. Notes
// that there is one.
int no_password(char*, int, int, void* has_password) {
  if (has_password != nullptr) *static_cast<bool*>(has_password) = true;
  return -1;
}

void load_own_key(SSL_CTX* context, const std::string& key_file, Defects& defects) {
  bool has_password = false;
  SSL_CTX_set_default_passwd_cb(context, no_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &has_password);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (loaded) return;
  const std::string why = take_ssl_error();
  add_defect("tls.keyFile", key_file,
             has_password ? "it has a password; take that off (openssl pkey)" : why, defects);
}

void load_own_certificate(SSL_CTX* context, const TlsSettings& settings, Defects& defects) {
  const bool has_certificate = !settings.cert_file.empty();
  const bool has_key = !settings.key_file.empty();
  if (has_certificate != has_key) {
    defects.push_back({has_key ? "tls.certFile" : "tls.keyFile",
                       "tls.certFile and tls.keyFile belong together: this one is missing"});
  }
  if (has_certificate && !is_pipe("tls.certFile", settings.cert_file, defects) &&
      SSL_CTX_use_certificate_chain_file(context, settings.cert_file.c_str()) != 1) {
    add_defect("tls.certFile", settings.cert_file, take_ssl_error(), defects);
  }
  if (has_key && !is_pipe("tls.keyFile", settings.key_file, defects)) {
    load_own_key(context, settings.key_file, defects);
  }
}

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
  load_authorities(context, settings.ca_file, made.defects);
  load_own_certificate(context, settings, made.defects);
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

std::string take_ssl_error() {
  std::string text = "no reason given";
  // The last error says most, unless it only tells that the system refused.
  while (const unsigned long code = ERR_get_error()) {
    if (ERR_SYSTEM_ERROR(code)) {
      text = std::system_category().message(ERR_GET_REASON(code));
      break;
    }
    const char* reason = ERR_reason_error_string(code);
    text = reason == nullptr ? fmt::format("OpenSSL error {}", code) : reason;
  }
  ERR_clear_error();
  return text;
}

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
