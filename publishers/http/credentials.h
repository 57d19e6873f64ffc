// What authorises a request: a user name with a password file, or a bearer token file.
#pragma once

#include <string>

#include "relay/backends.h"

namespace outbox {

// A secret as its file holds it, without the newline at its end.
struct Secret {
  std::string text;
  std::string error;  // names the file and the reason, never the content
};

Secret read_secret(const std::string& path);

// Used by one thread. Files are read anew when refresh() is called, since secrets are rotated.
class Credentials {
 public:
  explicit Credentials(const PublisherSettings& settings);

  // Reads the file, if there is one. If that fails, what was read before stays in use; an error
  // only if there is nothing to use.
  std::string refresh();

  // The value of the Authorization header; empty if there is nothing to authorise with.
  const std::string& authorization() const { return authorization_; }

 private:
  const std::string username_;
  const std::string password_file_;
  const std::string bearer_token_file_;
  std::string authorization_;
};

}  // namespace outbox
