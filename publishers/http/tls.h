// TLS as this publisher speaks it: version 1.2 or later, the server's certificate and name
// verified.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <string>

#include "publishers/wire/changed_files.h"
#include "publishers/wire/tls_files.h"
#include "relay/backends.h"

namespace outbox {

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslContextPointer = std::unique_ptr<SSL_CTX, SslContextDeleter>;
using SslPointer = std::unique_ptr<SSL, SslDeleter>;

// All that is wrong with the certificate files. Reads them.
std::vector<SettingDefect> tls_files_defects(const TlsSettings& settings);

// Makes sessions for one server. Certificates come from the configured files or from the system;
// files that have changed are read anew for the next session, and stay as they were while they
// can't be read. Safe from any thread.
class TlsContext {
 public:
  // Reads the files. `host`: whom the certificate must name, unless the settings name another.
  TlsContext(const TlsSettings& settings, const std::string& host);

  // A session for a connected, non-blocking socket; null and an error if there can be none.
  SslPointer new_session(int socket, std::string& error);

 private:
  void reload_if_changed(std::string& error);

  const TlsSettings settings_;
  const std::string name_;
  std::mutex mutex_;
  ChangedFiles files_;         // guarded by mutex_
  SslContextPointer context_;  // guarded
};

}  // namespace outbox
