// A server for tests that sees each byte and may misbehave as it likes. cpp-httplib's own server
// would not do: it decodes %XX in header values and can't be made to behave badly.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace outbox::testing {

struct RawRequest {
  std::string request_line;
  std::vector<std::pair<std::string, std::string>> headers;  // as on the wire, in order
  std::string body;

  // The value of the only header with this name in any case; "(none)" or "(many)" otherwise.
  std::string header(std::string_view name) const;
};

// One connection, on the server's side.
class Peer {
 public:
  Peer(int socket, SSL* ssl) : socket_(socket), ssl_(ssl) {}

  // Reads a request strictly: CRLF lines, a Content-Length; false at the end of the stream or if
  // the bytes are no such request (then `malformed` says what).
  bool read_request(RawRequest& request);
  bool send(std::string_view bytes);  // false if the client has gone
  void answer(int status, std::string_view headers = "", std::string_view body = "");
  void reset();           // closes with RST
  bool wait_for_close();  // until the client closes or the server stops
  std::string malformed;

 private:
  bool fill();

  int socket_;
  SSL* ssl_;
  std::string buffer_;
};

struct ServerTls {
  std::string cert_file;
  std::string key_file;
  std::string client_ca_file =
      {};               // not empty: clients have to show a certificate of this authority
  int version_max = 0;  // as OpenSSL numbers them; 0: the newest
};

// Listens on a free port of 127.0.0.1; each connection runs `serve` on a thread of its own. The
// destructor closes all and waits.
class RawServer {
 public:
  using Serve = std::function<void(Peer&)>;

  explicit RawServer(Serve serve, const ServerTls* tls = nullptr);
  ~RawServer();

  std::uint16_t port() const { return port_; }
  std::string url(const std::string& path = "/") const;
  std::size_t connections() const { return connections_; }  // accepted so far
  std::size_t open_connections() const;
  // No more connections are accepted and the ones there are break off.
  void stop();

 private:
  void accept_on();
  void run(int socket);

  Serve serve_;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> connections_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Keeps requests, from any thread.
class RequestLog {
 public:
  void add(RawRequest request);
  std::vector<RawRequest> all() const;
  std::size_t count() const { return all().size(); }

 private:
  mutable std::mutex mutex_;
  std::vector<RawRequest> requests_;
};

}  // namespace outbox::testing
