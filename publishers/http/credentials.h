// What of a request stands in files: a user name's password or a bearer token, and headers.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "publishers/http/endpoint.h"
#include "publishers/wire/changed_files.h"
#include "relay/backends.h"

namespace outbox {

// One for all connections, so that what any of them has read stays usable by all. Safe from any
// thread.
class Credentials {
 public:
  // The headers that come of the files: Authorization, if there is something to authorise with, and
  // those that have files of their own.
  struct Current {
    std::vector<Header> headers;
    std::string error;  // there is nothing to use
  };

  // Reads the files; what can't be read yet is read when it is asked for.
  explicit Credentials(const PublisherSettings& settings);

  // Reads the files anew, if one has changed or the receiver `rejected` what they held. If that
  // fails, what was read before stays in use.
  Current current(bool rejected);

 private:
  std::string read(std::vector<Header>& headers) const;

  const std::string username_;
  const std::string password_file_;
  const std::string bearer_token_file_;
  const std::map<std::string, std::string> header_files_;
  std::mutex mutex_;
  ChangedFiles files_;           // guarded by mutex_
  std::vector<Header> headers_;  // guarded
};

}  // namespace outbox
