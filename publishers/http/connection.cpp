#include "publishers/http/connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

namespace outbox {

namespace {

constexpr std::size_t kGatherMax = 32 * 1024;
constexpr std::size_t kFirstLineMax = 2 * 1024;
constexpr std::size_t kHeadMax = 32 * 1024;
constexpr std::size_t kRestMax = 128 * 1024;  // a body of 64 KiB, in small chunks at worst

std::string text_of(int error_number) { return std::system_category().message(error_number); }

// Rounded up, so that a wait does not end before its time.
int milliseconds(Duration left) {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<long long>(rounded, 0, INT_MAX));
}

// Why an SSL call failed: OpenSSL's own words, else the socket's error, else an end without
// good-bye.
std::string ssl_reason(int error_number) {
  if (ERR_peek_last_error() != 0) return take_ssl_error();
  return error_number == 0 ? "the receiver closed the connection" : text_of(error_number);
}

void set_option(int socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket, level, option, &on, sizeof(on));
}

}  // namespace

void Descriptor::reset(int value) {
  if (value_ >= 0) ::close(value_);
  value_ = value;
}

Connection::Connection(TlsContext* tls, Resolver& resolver, const Clock& clock)
    : tls_(tls), resolver_(resolver), clock_(clock) {}

void Connection::begin_attempt(Time deadline) {
  deadline_ = deadline;
  wrote_ = false;
  receiver_stopped_reading_ = false;
  timed_out_ = false;
  in_head_ = true;
  in_first_line_ = true;
  part_bytes_ = 0;
  out_.clear();
  error_.clear();
}

// Each address gets an equal share of what time is left, so that one that swallows packets does not
// hide another that answers.
bool Connection::open() {
  close();
  const Resolution resolution = resolver_.resolve(deadline_);
  if (resolution.addresses.empty()) return fail(resolution.error);
  std::size_t left = resolution.addresses.size();
  for (const Address& address : resolution.addresses) {
    const Time now = clock_.now();
    const Duration share = (deadline_ - now) / static_cast<Duration::rep>(left--);
    error_.clear();
    if (connect_to(address, now + share)) {
      if (tls_ == nullptr || shake_hands()) return true;
      break;
    }
  }
  timed_out_ = clock_.now() >= deadline_;
  close();
  return false;
}

bool Connection::connect_to(const Address& address, Time deadline) {
  socket_.reset(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket_.is_open()) return fail(fmt::format("no socket: {}", text_of(errno)));
  set_option(socket_.get(), IPPROTO_TCP, TCP_NODELAY);
  set_option(socket_.get(), SOL_SOCKET, SO_KEEPALIVE);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(socket_.get(), where, address.length) == 0) return true;
  if (errno != EINPROGRESS) return fail(fmt::format("can't connect: {}", text_of(errno)));
  if (!wait(POLLOUT, deadline)) return fail("can't connect: no answer in time");
  int result = 0;
  socklen_t length = sizeof(result);
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &result, &length);
  return result == 0 || fail(fmt::format("can't connect: {}", text_of(result)));
}

bool Connection::shake_hands() {
  std::string why;
  ssl_ = tls_->new_session(socket_.get(), why);
  if (!ssl_) return fail(std::move(why));
  while (true) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) {
      healthy_ = true;
      return true;
    }
    const int error_number = errno;
    if (wait_for_ssl(result)) continue;
    if (timed_out_) return fail("TLS: no answer in time");
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict != X509_V_OK) {
      return fail(fmt::format("TLS: the receiver's certificate is not accepted: {}",
                              X509_verify_cert_error_string(verdict)));
    }
    return fail(fmt::format("TLS: the handshake failed: {}", ssl_reason(error_number)));
  }
}

void Connection::close() {
  if (ssl_ && healthy_) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());  // says good-bye and does not wait for an answer
  }
  healthy_ = false;
  ssl_.reset();
  socket_.reset();
  out_.clear();
  in_at_ = 0;
  in_end_ = 0;
}

std::optional<Connection::TlsFacts> Connection::tls_facts() const {
  const STACK_OF(X509)* chain = ssl_ ? SSL_get0_verified_chain(ssl_.get()) : nullptr;
  std::optional<std::chrono::sys_seconds> first;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(sk_X509_value(chain, i)), &end) != 1) continue;
    const std::chrono::sys_seconds expires{std::chrono::seconds{::timegm(&end)}};
    first = std::min(first.value_or(expires), expires);
  }
  if (!first) return std::nullopt;
  return TlsFacts{*first, SSL_get_version(ssl_.get())};
}

bool Connection::is_quiet() {
  if (!socket_.is_open() || in_at_ != in_end_) return false;
  if (ssl_ && SSL_pending(ssl_.get()) > 0) return false;
  pollfd readable{socket_.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&readable, 1, 0) == 0;
}

bool Connection::wait(short events, Time deadline) {
  while (true) {
    const Time now = clock_.now();
    pollfd ready{socket_.get(), events, 0};
    const int count = now >= deadline ? 0 : ::poll(&ready, 1, milliseconds(deadline - now));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return fail(fmt::format("can't wait: {}", text_of(errno)));
    if (clock_.now() < deadline) continue;
    timed_out_ = clock_.now() >= deadline_;
    return false;
  }
}

// After an SSL call that did not succeed: true if it is worth another try.
bool Connection::wait_for_ssl(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN, deadline_);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT, deadline_);
    default:
      healthy_ = false;
      return false;
  }
}

bool Connection::write(const char* data, std::size_t size) {
  const std::string_view bytes(data, size);
  if (out_.size() + size <= kGatherMax) {
    out_ += bytes;
    return true;
  }
  return flush() && send_all(bytes);
}

bool Connection::flush() {
  if (out_.empty()) return true;
  const bool sent = send_all(out_);
  out_.clear();
  return sent;
}

// A receiver may answer (413, say) and close before it has read everything: then the rest is
// dropped and the answer decides.
bool Connection::send_all(std::string_view bytes) {
  while (!bytes.empty() && !receiver_stopped_reading_) {
    if (clock_.now() >= deadline_) {
      timed_out_ = true;
      return fail("no time left to send");
    }
    const ssize_t count = send_some(bytes);
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// How many bytes went out, 0 if the receiver reads no more; -1 is final.
ssize_t Connection::send_some(std::string_view bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), INT_MAX);
  while (true) {
    if (ssl_) {
      ERR_clear_error();
      wrote_ = true;  // even a call that fails may have sent some of it
      const int count = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(size));
      if (count > 0) return count;
      if (wait_for_ssl(count)) continue;
    } else {
      const ssize_t count = ::send(socket_.get(), bytes.data(), size, MSG_NOSIGNAL);
      wrote_ = wrote_ || count > 0;
      if (count >= 0) return count;
      if (errno == EINTR) continue;
      if (errno == EAGAIN && wait(POLLOUT, deadline_)) continue;
    }
    if (timed_out_) {
      fail("the receiver did not take the request in time");
      return -1;
    }
    receiver_stopped_reading_ = true;
    return 0;
  }
}

ssize_t Connection::read(char* data, std::size_t size) {
  if (!flush()) return -1;
  if (in_at_ == in_end_ && !fill()) return error_.empty() ? 0 : -1;
  const std::size_t count = std::min(size, in_end_ - in_at_);
  const std::string_view bytes(in_.data() + in_at_, count);
  if (!within_limits(bytes)) return -1;
  std::memcpy(data, bytes.data(), count);
  in_at_ += count;
  return static_cast<ssize_t>(count);
}

bool Connection::within_limits(std::string_view bytes) {
  part_bytes_ += bytes.size();
  if (!in_head_) return part_bytes_ <= kRestMax || fail("the answer is too long");
  if (in_first_line_) {
    if (bytes.find('\n') != std::string_view::npos) in_first_line_ = false;
    if (part_bytes_ > kFirstLineMax) return fail("the answer's first line is too long for HTTP");
  }
  return part_bytes_ <= kHeadMax ||
         fail(fmt::format("the answer's head is longer than {} bytes", kHeadMax));
}

void Connection::head_is_complete() {
  in_head_ = false;
  part_bytes_ = 0;
}

bool Connection::fill() {
  in_at_ = 0;
  in_end_ = 0;
  if (clock_.now() >= deadline_) {
    timed_out_ = true;
    return fail("no complete answer in time");
  }
  const ssize_t count = receive_some();
  if (count > 0) in_end_ = static_cast<std::size_t>(count);
  return count > 0;
}

// How many bytes came, 0 at the end of the stream, -1 on an error.
ssize_t Connection::receive_some() {
  while (true) {
    errno = 0;
    int error_number = 0;
    if (ssl_) {
      ERR_clear_error();
      const int count = SSL_read(ssl_.get(), in_.data(), static_cast<int>(in_.size()));
      if (count > 0) return count;
      error_number = errno;
      if (SSL_get_error(ssl_.get(), count) == SSL_ERROR_ZERO_RETURN) return 0;
      if (wait_for_ssl(count)) continue;
    } else {
      const ssize_t count = ::recv(socket_.get(), in_.data(), in_.size(), 0);
      if (count >= 0) return count;
      error_number = errno;
      if (error_number == EINTR) continue;
      if (error_number == EAGAIN && wait(POLLIN, deadline_)) continue;
    }
    if (timed_out_) {
      fail("no complete answer in time");
    } else {
      const std::string why = ssl_ ? ssl_reason(error_number) : text_of(error_number);
      fail(fmt::format("the connection was lost: {}", why));
    }
    return -1;
  }
}

bool Connection::fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
  return false;
}

}  // namespace outbox
