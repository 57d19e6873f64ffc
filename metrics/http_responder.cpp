#include "metrics/http_responder.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

namespace outbox {

namespace {

// Reads from a text and writes to another.
class MemoryStream : public httplib::Stream {
 public:
  explicit MemoryStream(std::string_view input) : input_(input) {}

  bool is_readable() const override { return !input_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* into, size_t size) override {
    const std::size_t count = std::min(size, input_.size());
    std::memcpy(into, input_.data(), count);
    input_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) override {
    output_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string take_output() { return std::move(output_); }

 private:
  std::string_view input_;
  std::string output_;
};

void refuse_method(httplib::Response& response) {
  response.status = 405;
  response.set_header("Allow", "GET, HEAD");
  response.set_content("Only GET and HEAD are answered here.\n", "text/plain");
}

}  // namespace

HttpResponder::HttpResponder(KeepAlive keep_alive, Answer answer) {
  set_keep_alive_timeout(keep_alive.time_max.count());
  set_keep_alive_max_count(keep_alive.requests_max);
  set_default_headers({{"Accept-Ranges", "none"},
                       {"Cache-Control", "no-store"},
                       {"X-Content-Type-Options", "nosniff"}});
  // All is answered before the library routes: its routes are regular expressions.
  set_pre_routing_handler(
      [answer = std::move(answer)](const httplib::Request& request, httplib::Response& response) {
        if (request.method == "GET" || request.method == "HEAD") {
          answer(request, response);
        } else {
          refuse_method(response);
        }
        return HandlerResponse::Handled;
      });
  // The library would put the exception's text into a header.
  set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        response.status = 500;
        response.set_content("The request could not be answered.\n", "text/plain");
      });
}

std::string HttpResponder::respond(const std::string& request_line, bool keep_alive) {
  MemoryStream stream(request_line);
  bool closed = false;
  process_request(stream, !keep_alive, closed, nullptr);
  return stream.take_output();
}

}  // namespace outbox
