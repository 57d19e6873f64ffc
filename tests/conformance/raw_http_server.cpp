#include "tests/conformance/raw_http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <csignal>

namespace outbox::testing {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

SSL_CTX* new_context(const ServerTls& tls) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  REQUIRE(SSL_CTX_use_certificate_chain_file(context, tls.cert_file.c_str()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey_file(context, tls.key_file.c_str(), SSL_FILETYPE_PEM) == 1);
  if (tls.version_max != 0) {
    SSL_CTX_set_security_level(context, 0);  // or the old versions would not even be offered
    REQUIRE(SSL_CTX_set_max_proto_version(context, tls.version_max) == 1);
  }
  if (!tls.client_ca_file.empty()) {
    REQUIRE(SSL_CTX_load_verify_locations(context, tls.client_ca_file.c_str(), nullptr) == 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

}  // namespace

std::string RawRequest::header(std::string_view name) const {
  std::string found = "(none)";
  for (const auto& [header_name, value] : headers) {
    if (!same_name(header_name, name)) continue;
    if (found != "(none)") return "(many)";
    found = value;
  }
  return found;
}

bool Peer::fill() {
  std::array<char, 65536> bytes;
  const ssize_t count = ssl_ != nullptr
                            ? SSL_read(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                            : ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

bool Peer::read_request(RawRequest& request) {
  request = {};
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  std::size_t at = head.find("\r\n");
  request.request_line = head.substr(0, at);
  std::size_t length = 0;
  for (at += 2; at < head.size();) {
    const std::size_t line_end = head.find("\r\n", at);
    const std::string line = head.substr(at, line_end - at);
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || line.find_first_of("\r\n") != std::string::npos) {
      malformed = line;
      return false;
    }
    request.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    if (same_name(line.substr(0, colon), "content-length")) {
      length = std::stoul(line.substr(colon + 2));
    }
    at = line_end + 2;
  }
  while (buffer_.size() < length) {
    if (!fill()) return false;
  }
  request.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return true;
}

bool Peer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ssl_ != nullptr
                              ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                              : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void Peer::answer(int status, std::string_view headers, std::string_view body) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Words\r\n";
  text += headers;
  text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  text += body;
  send(text);
}

void Peer::reset() {
  const linger at_once{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

bool Peer::wait_for_close() {
  while (fill()) buffer_.clear();
  return true;
}

RawServer::RawServer(Serve serve, const ServerTls* tls) : serve_(std::move(serve)) {
  if (tls != nullptr) context_ = new_context(*tls);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(::listen(listener_, 128) == 0);
  socklen_t length = sizeof(address);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_on(); });
}

RawServer::~RawServer() {
  stop();
  if (context_ != nullptr) SSL_CTX_free(context_);
}

std::string RawServer::url(const std::string& path) const {
  const std::string scheme = context_ == nullptr ? "http" : "https";
  return scheme + "://127.0.0.1:" + std::to_string(port_) + path;
}

std::size_t RawServer::open_connections() const {
  const std::lock_guard lock(mutex_);
  return sockets_.size();
}

void RawServer::stop() {
  if (stopping_.exchange(true)) return;
  acceptor_.join();
  ::close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void RawServer::accept_on() {
  // A write to a connection that is gone must fail, not end the test.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!stopping_) {
    pollfd readable{listener_, POLLIN, 0};
    if (::poll(&readable, 1, 5) <= 0) continue;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ++connections_;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { run(socket); });
  }
}

void RawServer::run(int socket) {
  SSL* ssl = nullptr;
  bool ready = true;
  if (context_ != nullptr) {
    ssl = SSL_new(context_);
    SSL_set_fd(ssl, socket);
    ready = SSL_accept(ssl) == 1;
  }
  if (ready) {
    Peer peer(socket, ssl);
    serve_(peer);
  }
  if (ssl != nullptr) {
    if (ready) SSL_shutdown(ssl);
    SSL_free(ssl);
  }
  const std::lock_guard lock(mutex_);
  std::erase(sockets_, socket);
  ::close(socket);
}

void RequestLog::add(RawRequest request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(request));
}

std::vector<RawRequest> RequestLog::all() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace outbox::testing
