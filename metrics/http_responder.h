// What is left to the HTTP library: to parse a request line and to write a response, in memory.
//
// Its own listener and connections are not used: it has no limit on the length of a header line or
// their number, none on the time a request takes, a backlog of five, decodes header values, adds
// headers of its own to the request and ends at the first failed accept. So only a request line
// that has been screened gets here.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace outbox {

// Safe to call from any thread.
class HttpResponder : private httplib::Server {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  // What a client is told about connections that are kept.
  struct KeepAlive {
    std::chrono::seconds time_max;
    std::size_t requests_max;
  };

  // `answer` sets status and content for any path; only GET and HEAD get to it.
  HttpResponder(KeepAlive keep_alive, Answer answer);

  // The whole response to one request.
  std::string respond(const std::string& request_line, bool keep_alive);
};

}  // namespace outbox
