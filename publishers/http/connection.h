// One connection to the receiver: bytes in and out, each call bounded by the attempt's deadline,
// and answers bounded in size.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "publishers/http/resolver.h"
#include "publishers/http/tls.h"
#include "relay/clock.h"

namespace outbox {

// A file descriptor that is closed when its owner goes.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void reset(int value = -1);

 private:
  int value_;
};

// Used by one thread. Nothing throws; what went wrong is in error().
//
// An answer is bounded here (its first line, its head and the rest), because the HTTP library
// bounds no line and no number of lines, and a long first line overflows its stack.
class Connection {
 public:
  // `tls` is null for plain HTTP. All references outlive the connection.
  Connection(TlsContext* tls, Resolver& resolver, const Clock& clock);

  void begin_attempt(Time deadline);
  bool open();
  void close();
  bool is_open() const { return socket_.is_open(); }

  // Whether a request may go out on it: still connected, and no byte has arrived that nobody asked
  // for. The receiver may still close it in the next moment; that is an attempt that was lost.
  bool is_quiet();

  // Takes bytes to send. They leave when enough have gathered, or when an answer is read.
  bool write(const char* data, std::size_t size);
  // At least one byte, 0 at the end of the stream, -1 on an error. Sends what is gathered first.
  ssize_t read(char* data, std::size_t size);

  void head_is_complete();

  // When the first certificate of the receiver's chain expires, and which version of TLS was agreed
  // on; nothing without TLS or a connection.
  struct TlsFacts {
    std::chrono::sys_seconds expires;
    std::string version;
  };
  std::optional<TlsFacts> tls_facts() const;

  bool wrote() const { return wrote_; }  // bytes of the request were given to the kernel
  bool timed_out() const { return timed_out_; }
  const std::string& error() const { return error_; }  // the first one of this attempt

 private:
  bool connect_to(const Address& address, Time deadline);
  bool shake_hands();
  bool wait(short events, Time deadline);
  bool wait_for_ssl(int result);
  bool flush();
  bool send_all(std::string_view bytes);
  ssize_t send_some(std::string_view bytes);
  bool fill();
  ssize_t receive_some();
  bool within_limits(std::string_view bytes);
  bool fail(std::string error);

  TlsContext* const tls_;
  Resolver& resolver_;
  const Clock& clock_;

  Descriptor socket_;
  SslPointer ssl_;
  bool healthy_ = false;  // TLS can still be closed in order

  std::string out_;
  std::array<char, 16 * 1024> in_;
  std::size_t in_at_ = 0;
  std::size_t in_end_ = 0;

  Time deadline_{};
  bool wrote_ = false;
  bool receiver_stopped_reading_ = false;
  bool timed_out_ = false;
  bool in_head_ = true;
  bool in_first_line_ = true;
  std::size_t part_bytes_ = 0;  // of the head, then of the rest
  std::string error_;
};

}  // namespace outbox
