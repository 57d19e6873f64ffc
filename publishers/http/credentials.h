// What of a request stands in files: a user name's password or a bearer token, and headers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "publishers/http/endpoint.h"
#include "publishers/wire/changed_files.h"
#include "relay/backends.h"

namespace outbox {

// Used by one thread.
class Credentials {
 public:
  explicit Credentials(const PublisherSettings& settings);

  // Reads the files, if one has changed or the receiver `rejected` what they held. If that fails,
  // what was read before stays in use; an error only if there is nothing to use.
  std::string refresh(bool rejected);

  // The headers that come of it: Authorization, if there is something to authorise with, and those
  // that have files of their own.
  const std::vector<Header>& headers() const { return headers_; }

 private:
  std::string read(std::vector<Header>& headers) const;

  const std::string username_;
  const std::string password_file_;
  const std::string bearer_token_file_;
  const std::map<std::string, std::string> header_files_;
  ChangedFiles files_;
  std::vector<Header> headers_;
};

}  // namespace outbox
