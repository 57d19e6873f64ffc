// TLS for librabbitmq, verified by OpenSSL itself: its own check of names knows no addresses, and
// says of a certificate only that it is not accepted.
#pragma once

#include <amqp.h>

#include <chrono>
#include <optional>
#include <string>

#include "relay/backends.h"

namespace outbox {

// What became of the broker's certificates.
struct TlsVerdict {
  std::string why;  // not accepted; empty: accepted, or not yet seen
  std::optional<std::chrono::sys_seconds> expires;  // the first of those that were accepted
};

// Belongs to the connection. Null, with the reason, if a file can't be used. The host has to be
// what the broker's certificate names, unless the settings name another. The verdict outlives the
// connection.
amqp_socket_t* new_tls_socket(amqp_connection_state_t connection, const TlsSettings& settings,
                              const std::string& host, TlsVerdict& verdict, std::string& error);

// All that is wrong with the files.
std::vector<SettingDefect> amqp_tls_files_defects(const TlsSettings& settings);

}  // namespace outbox
