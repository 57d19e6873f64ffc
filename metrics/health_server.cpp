#include "metrics/health_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>
#include <thread>

#include "metrics/exposition.h"
#include "metrics/http_connection.h"
#include "metrics/http_responder.h"
#include "metrics/listen_socket.h"

namespace outbox {

namespace {

// How long to leave accepting alone when the system has no descriptor or memory to spare.
constexpr int kAcceptPauseMilliseconds = 50;

bool wants_json(const httplib::Request& request) {
  return request.has_param("verbose") && request.get_param_value("verbose") != "0";
}

void answer_probe(const ProbeAnswer& answer, const Health& health, bool json,
                  httplib::Response& response) {
  response.status = answer.ok ? 200 : 503;
  if (json) {
    response.set_content(to_json(answer, health), "application/json");
  } else {
    const std::string why = answer.reason.empty() ? "" : ": " + answer.reason;
    response.set_content(answer.state + why + "\n", "text/plain; charset=utf-8");
  }
}

}  // namespace

class HealthServer::Parts {
 public:
  Parts(const HealthServerOptions& options, Metrics& metrics, const HealthSource& source);
  ~Parts();

  const OwnedFd& listener() const { return listener_; }

 private:
  void answer(const httplib::Request& request, httplib::Response& response);
  void accept_connections();
  void accept_one();
  void serve(int fd);
  bool serve_request(HttpConnection& connection, bool last);

  const HealthServerOptions options_;
  Metrics& metrics_;
  const HealthSource& source_;
  OwnedFd listener_;
  OwnedFd stop_;  // readable once the server is to end
  HttpResponder responder_;
  ConnectionPool pool_;
  std::thread acceptor_;
};

HealthServer::Parts::Parts(const HealthServerOptions& options, Metrics& metrics,
                           const HealthSource& source)
    : options_(options),
      metrics_(metrics),
      source_(source),
      listener_(open_listen_socket(options.listen, options.setting)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      responder_({std::chrono::floor<std::chrono::seconds>(options.request_time_max),
                  options.requests_max},
                 [this](const httplib::Request& request, httplib::Response& response) {
                   answer(request, response);
                 }),
      pool_(options.pool, [this](int fd) { serve(fd); }) {
  if (stop_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  // Signals are for the program's main thread; threads inherit what is blocked here.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  acceptor_ = std::thread([this] { accept_connections(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HealthServer::Parts::~Parts() {
  eventfd_write(stop_.get(), 1);
  acceptor_.join();
}

void HealthServer::Parts::answer(const httplib::Request& request, httplib::Response& response) {
  if (request.path == "/metrics") {
    response.status = 200;
    response.set_content(metrics_.exposition(), kExpositionType);
    return;
  }
  const Health health = source_.health();
  if (request.path == "/livez") {
    answer_probe(liveness_of(health), health, wants_json(request), response);
  } else if (request.path == "/readyz") {
    answer_probe(readiness_of(health), health, true, response);
  } else if (request.path == "/startupz") {
    answer_probe(startup_of(health), health, wants_json(request), response);
  } else {
    response.status = 404;
    response.set_content("Here are /metrics, /livez, /readyz and /startupz.\n", "text/plain");
  }
}

void HealthServer::Parts::accept_connections() {
  std::array<pollfd, 2> waited{{{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (true) {
    if (poll(waited.data(), waited.size(), -1) < 0) continue;
    if (waited[1].revents != 0) return;
    accept_one();
  }
}

void HealthServer::Parts::accept_one() {
  OwnedFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() < 0) {
    // A connection that is gone already is nobody's fault; all else is a shortage that will pass.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    pollfd stop{stop_.get(), POLLIN, 0};
    poll(&stop, 1, kAcceptPauseMilliseconds);
    return;
  }
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  pool_.take(std::move(connection));
}

void HealthServer::Parts::serve(int fd) {
  // Out of memory, at worst: this connection ends, the program goes on.
  try {
    HttpConnection connection(fd);
    std::size_t requests = 1;
    while (serve_request(connection, requests == options_.requests_max)) ++requests;
  } catch (const std::exception&) {
  }
}

// Returns whether another request may follow.
bool HealthServer::Parts::serve_request(HttpConnection& connection, bool last) {
  const auto refuse = [&](int status) {
    const Deadline deadline = std::chrono::steady_clock::now() + options_.response_time_max;
    if (connection.send(refusal_response(status), deadline)) connection.drain();
    return false;
  };
  switch (connection.read_head(std::chrono::steady_clock::now() + options_.request_time_max)) {
    case HttpConnection::Read::closed:
      return false;
    case HttpConnection::Read::timed_out:
      return connection.has_partial_head() && refuse(408);
    case HttpConnection::Read::too_large:
      return refuse(431);
    case HttpConnection::Read::complete:
      break;
  }
  const ScreenedRequest request = screen_request(connection.head());
  if (request.refusal != 0) return refuse(request.refusal);
  const bool keep_alive = request.keep_alive && !last;
  const std::string response = responder_.respond(request.request_line + "\r\n\r\n", keep_alive);
  return connection.send(response, std::chrono::steady_clock::now() + options_.response_time_max) &&
         keep_alive;
}

HealthServer::HealthServer(const HealthServerOptions& options, Metrics& metrics,
                           const HealthSource& source)
    : parts_(std::make_unique<Parts>(options, metrics, source)) {}

HealthServer::~HealthServer() = default;

std::uint16_t HealthServer::port() const { return port_of(parts_->listener()); }

}  // namespace outbox
