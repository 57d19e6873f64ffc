#include "publishers/wire/tls_files.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace outbox {

namespace {

using Defects = std::vector<SettingDefect>;

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

}  // namespace

std::string take_ssl_error() {
  std::string text = kNoSslError;
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

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

std::vector<SettingDefect> load_tls_files(SSL_CTX* context, const TlsSettings& settings) {
  Defects defects;
  load_authorities(context, settings.ca_file, defects);
  load_own_certificate(context, settings, defects);
  return defects;
}

}  // namespace outbox
