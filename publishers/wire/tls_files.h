// Certificates and keys from files, and what OpenSSL says of them.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <vector>

#include "relay/backends.h"

namespace outbox {

inline constexpr const char* kNoSslError = "no reason given";
// What OpenSSL has to say about its last error, in words; clears its queue.
std::string take_ssl_error();

// Whether it is an IP address rather than a name.
bool is_address(const std::string& host);

// Loads the authorities (the system's, if the settings name none) and the relay's own certificate.
// All that is wrong with the files.
std::vector<SettingDefect> load_tls_files(SSL_CTX* context, const TlsSettings& settings);

}  // namespace outbox
