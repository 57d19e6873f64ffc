// The relay of the demonstration: a child process, and what it tells over HTTP.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace outbox {

// A child process whose output is read line by line. Confined to one thread.
class DemoProcess {
 public:
  // Starts it; what it prints goes to lines(). Settings of this process's environment that would
  // change the relay's (OUTBOX_RELAY...) are not handed on. Throws std::system_error.
  explicit DemoProcess(const std::vector<std::string>& command);
  // Ends it, by force if it must.
  ~DemoProcess();
  DemoProcess(const DemoProcess&) = delete;
  DemoProcess& operator=(const DemoProcess&) = delete;

  // What it has printed since the last call. Does not wait.
  std::vector<std::string> lines();
  // Its exit code once it has ended; -1 when a signal ended it. Does not wait.
  std::optional<int> exit_code();
  // Asks it to stop (SIGTERM).
  void stop() const;

 private:
  pid_t child_ = -1;
  int output_ = -1;
  std::string rest_;  // of an unfinished line
  std::optional<int> exit_code_;
};

// What a look at /metrics and /readyz told.
struct RelayNumbers {
  bool answered = false;  // the HTTP port spoke
  bool ready = false;
  std::string circuit = "?";  // closed, open, half_open, isolated
  double next_probe = 0;      // seconds until the next probe while open
  double published = 0;
  double attempts = 0;
  double short_circuited = 0;
  double opened = 0;  // transitions to open
  double probes = 0;  // transitions to half_open
  double redelivered = 0;
  double dead_lettered = 0;
  double oldest_age = 0;  // seconds
  double in_flight_limit = 0;
};

// Reads a metrics page. Exposed for tests.
RelayNumbers read_metrics(const std::string& text, double now);

// Asks the relay on this loopback port; waits at most half a second.
RelayNumbers ask_relay(std::uint16_t port);

// One line of the relay's log (JSON).
struct LogLine {
  std::string text;             // for people: time of day, level, message, what matters beside it
  std::uint16_t http_port = 0;  // where /metrics is, if the line tells
};

// A line that is no JSON object is taken as it is.
LogLine read_log_line(const std::string& line);

}  // namespace outbox
