// Turns a server's name into addresses, without letting a slow name server hold anybody up.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace outbox::postgres {

struct HostAddresses {
  std::vector<std::string> addresses;  // as text; one that is empty: libpq needs none
  std::string problem;                 // why there are none
};

// libpq would look names up by itself, but for as long as the name servers are silent. Waits until
// then at most; a lookup that takes longer ends later, on a thread of its own. From any thread.
HostAddresses addresses_of(const std::string& host, std::chrono::steady_clock::time_point until);

}  // namespace outbox::postgres
