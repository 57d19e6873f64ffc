#include "relay/app/demo_relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>

namespace outbox {

namespace {

constexpr std::chrono::seconds kStopPatience{8};
constexpr std::chrono::milliseconds kAskTimeout{500};
constexpr std::size_t kLineMax = 4096;

[[noreturn]] void give_up(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<std::string> clean_environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("OUTBOX_RELAY")) kept.emplace_back(*entry);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output) {
  setpgid(0, 0);                     // Ctrl-C is for the demonstration, which then stops the relay
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // and nothing is left running if it crashes
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

DemoProcess::DemoProcess(const std::vector<std::string>& command) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = clean_environment();
  const auto argument_pointers = pointers_to(arguments);
  const auto environment_pointers = pointers_to(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) give_up("pipe");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  child_ = fork();
  if (child_ == 0) become(argument_pointers.data(), environment_pointers.data(), ends[1]);
  close(ends[1]);
  output_ = ends[0];
  if (child_ < 0) {
    close(output_);
    give_up("fork");
  }
}

DemoProcess::~DemoProcess() {
  stop();
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  while (!exit_code() && std::chrono::steady_clock::now() < deadline) {
    pollfd pipe{output_, POLLIN, 0};
    poll(&pipe, 1, 50);
    lines();  // a full pipe would keep it from ending
  }
  if (!exit_code()) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close(output_);
}

std::vector<std::string> DemoProcess::lines() {
  char chunk[4096];
  ssize_t got = 0;
  while ((got = read(output_, chunk, sizeof chunk)) > 0) {
    rest_.append(chunk, static_cast<std::size_t>(got));
  }
  std::vector<std::string> whole;
  std::size_t start = 0;
  for (std::size_t end = 0; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1) {
    whole.push_back(rest_.substr(start, end - start));
  }
  rest_.erase(0, start);
  if (rest_.size() > kLineMax) rest_.clear();
  return whole;
}

std::optional<int> DemoProcess::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(child_, &status, WNOHANG) == child_) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  return exit_code_;
}

void DemoProcess::stop() const {
  if (!exit_code_) kill(child_, SIGTERM);
}

namespace {

// One line of a metrics page: name, labels as they stand there, value.
struct Sample {
  std::string_view name;
  std::string_view labels;
  double value = 0;
};

std::optional<Sample> sample_of(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Sample sample;
  sample.value = std::strtod(std::string(line.substr(space + 1)).c_str(), nullptr);
  const std::size_t brace = line.find('{');
  sample.name = line.substr(0, std::min(brace, space));
  if (brace < space) sample.labels = line.substr(brace, space - brace);
  return sample;
}

bool has_label(const Sample& sample, std::string_view label) {
  return sample.labels.find(label) != std::string_view::npos;
}

// A field as text; empty if it is not there.
std::string word_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// "18:42:00" of "2026-11-30T18:42:00.123Z"
std::string time_of_day(const std::string& time) {
  constexpr std::size_t kStart = 11;
  constexpr std::size_t kLength = 8;
  return time.size() < kStart + kLength ? time : time.substr(kStart, kLength);
}

void take_sample(const Sample& sample, double now, RelayNumbers& numbers) {
  constexpr std::string_view kPrefix = "outbox_relay_";
  if (!sample.name.starts_with(kPrefix)) return;
  const std::string_view name = sample.name.substr(kPrefix.size());
  if (name == "broker_circuit_state" && sample.value == 1) {
    for (const char* state : {"closed", "open", "half_open", "isolated"}) {
      if (has_label(sample, "state=\"" + std::string(state) + "\"")) numbers.circuit = state;
    }
  }
  if (name == "broker_circuit_next_probe_timestamp_seconds" && sample.value > 0) {
    numbers.next_probe = std::max(0.0, sample.value - now);
  }
  if (name == "broker_circuit_transitions_total") {
    if (has_label(sample, "to=\"open\"")) numbers.opened += sample.value;
    if (has_label(sample, "to=\"half_open\"")) numbers.probes += sample.value;
  }
  if (name == "published_total") numbers.published += sample.value;
  if (name == "publish_attempts_total") numbers.attempts += sample.value;
  if (name == "broker_circuit_open_total") numbers.short_circuited += sample.value;
  if (name == "redelivered_total") numbers.redelivered += sample.value;
  if (name == "dead_lettered_total") numbers.dead_lettered += sample.value;
  if (name == "oldest_pending_age_seconds") numbers.oldest_age = sample.value;
  if (name == "broker_in_flight_limit") numbers.in_flight_limit = sample.value;
}

}  // namespace

RelayNumbers read_metrics(const std::string& text, double now) {
  RelayNumbers numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto sample = sample_of(line)) take_sample(*sample, now, numbers);
  }
  return numbers;
}

RelayNumbers ask_relay(std::uint16_t port) {
  httplib::Client client("127.0.0.1", port);
  client.set_tcp_nodelay(true);
  client.set_keep_alive(true);
  client.set_connection_timeout(kAskTimeout);
  client.set_read_timeout(kAskTimeout);
  const auto metrics = client.Get("/metrics");
  if (!metrics || metrics->status != 200) return {};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  RelayNumbers numbers = read_metrics(metrics->body, std::chrono::duration<double>(now).count());
  numbers.answered = true;
  const auto ready = client.Get("/readyz");
  numbers.ready = ready && ready->status == 200;
  return numbers;
}

LogLine read_log_line(const std::string& line) {
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  if (!parsed.is_object()) return {line, 0};
  LogLine result;
  result.text = fmt::format("{} {:<5} {}", time_of_day(word_in(parsed, "time")),
                            word_in(parsed, "level"), word_in(parsed, "msg"));
  for (const char* name : {"reason", "error", "id", "messages", "backlog", "next_probe_seconds"}) {
    if (parsed.contains(name)) result.text += fmt::format(" {}={}", name, word_in(parsed, name));
  }
  result.http_port =
      static_cast<std::uint16_t>(std::strtoul(word_in(parsed, "http_port").c_str(), nullptr, 10));
  return result;
}

}  // namespace outbox
