// What authorises a request: a user name with a password file, or a bearer token file.
#pragma once

#include <string>

#include "publishers/wire/changed_files.h"
#include "relay/backends.h"

namespace outbox {

// Used by one thread.
class Credentials {
 public:
  explicit Credentials(const PublisherSettings& settings);

  // Reads the file, if there is one and it has changed or the receiver `rejected` what it held. If
  // that fails, what was read before stays in use; an error only if there is nothing to use.
  std::string refresh(bool rejected);

  // The value of the Authorization header; empty if there is nothing to authorise with.
  const std::string& authorization() const { return authorization_; }

 private:
  const std::string username_;
  const std::string password_file_;
  const std::string bearer_token_file_;
  ChangedFiles files_;
  std::string authorization_;
};

}  // namespace outbox
