// One keep-alive HTTP client: a request out, an answer in, by a deadline.
#pragma once

#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "publishers/http/connection.h"
#include "publishers/http/credentials.h"
#include "publishers/http/judgement.h"
#include "publishers/http/request.h"

namespace outbox {

// What became of one request.
struct Exchange {
  HttpAnswer answer;      // status 0: no answer, or none that is HTTP
  std::string error;      // why there is none
  bool attempted = true;  // false: nothing was even tried (a secret can't be read)
  bool wrote = false;     // bytes of the request went out
  bool timed_out = false;
};

// cpp-httplib writes requests and reads answers; bytes travel over our own connection, because the
// library's has no deadline over a whole exchange, follows no limit on an answer's head, and reuses
// a connection on which an answer nobody asked for is waiting. The library is given a handle that
// leads nowhere: were it ever to use its own transport, nothing could leave unguarded.
//
// Used by one thread. It never sends a request twice and follows no redirect.
class HttpClient final : private httplib::ClientImpl {
 public:
  HttpClient(const Endpoint& endpoint, const PublisherSettings& settings, Credentials& credentials,
             TlsContext* tls, Resolver& resolver, const Clock& clock);

  Exchange exchange(const HttpRequest& request, Time deadline);

 private:
  bool create_and_connect_socket(Socket& socket, httplib::Error& error) override;
  void shutdown_ssl(Socket& socket, bool gracefully) override;
  bool process_socket(const Socket& socket,
                      std::function<bool(httplib::Stream& stream)> callback) override;

  bool prepare_connection(Exchange& exchange);
  httplib::Request to_library(const HttpRequest& request);
  void remember_keep_alive(const httplib::Response& response);

  const Clock& clock_;
  Connection connection_;
  Credentials& credentials_;
  std::vector<Header> secret_headers_;  // of this request
  const std::function<void(std::chrono::sys_seconds)> on_certificate_;
  bool rejected_ = false;  // the last answer did not like the credentials
  Duration idle_max_{0};   // how long the connection may lie idle before it is not used again
  Time last_used_{};
};

}  // namespace outbox
