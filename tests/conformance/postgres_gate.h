// A way to a PostgreSQL server on which each statement stops until it is let through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace outbox::conformance::isolation {

// For one connection at a time, and confined to one thread: bytes are passed on while this is asked
// to. What a client asks until its session is ready, and what it only prepares, passes at once.
class PostgresGate {
 public:
  // `as_pooler`: a relay takes it for a pooler, and sends each statement by itself.
  PostgresGate(std::uint16_t server, bool as_pooler);
  ~PostgresGate();
  PostgresGate(const PostgresGate&) = delete;
  PostgresGate& operator=(const PostgresGate&) = delete;

  std::uint16_t port() const { return port_; }
  // Passes bytes on until none come for that many milliseconds, or until `wakes` can be read.
  // False: none came.
  bool pump(int milliseconds, int wakes);
  // A statement stands before the gate.
  bool holds() const { return held_.has_value(); }
  void let_through();
  // Its text.
  const std::string& statement() const { return statement_; }
  // A statement was let through, and is not answered yet.
  bool unanswered() const { return awaits_ != Awaits::nothing; }
  // The server's process for this session.
  std::int64_t process() const { return process_; }
  void cut();

 private:
  void accept();
  void read_client();
  void read_server();
  void take_request();
  void note_text(std::size_t at);
  void take_answer(char kind);

  bool free() const { return !held_ && awaits_ == Awaits::nothing; }

  enum class Awaits { nothing, statement, ready };

  const std::uint16_t server_port_;
  const bool as_pooler_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  int client_ = -1;
  int server_ = -1;
  bool ready_ = false;   // the session was set up
  bool failed_ = false;  // a statement: the server leaves out what was sent with it
  Awaits awaits_ = Awaits::nothing;
  Awaits awaited_next_ = Awaits::nothing;  // by what is held
  std::int64_t process_ = 0;
  std::string from_client_;
  std::string from_server_;
  std::optional<std::string> held_;
  std::string statement_;
  std::map<std::string, std::string> prepared_;  // texts by their names
};

}  // namespace outbox::conformance::isolation
