#include "relay/app/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace outbox {

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kCrashing{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Signal handlers can't be handed anything, so what they need stands here.
volatile sig_atomic_t end_asked = 0;
volatile sig_atomic_t terminal_taken = 0;
termios state_before;

void note_end(int) { end_asked = 1; }

// Safe in a signal handler.
void give_back() {
  if (terminal_taken == 0) return;
  terminal_taken = 0;
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  tcsetattr(STDIN_FILENO, TCSANOW, &state_before);
}

void crash(int signal_number) {
  give_back();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void handle(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

bool has_terminal() {
  const std::string_view kind = environment("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !kind.empty() && kind != "dumb";
}

bool wants_colour() { return environment("NO_COLOR").empty(); }

bool speaks_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos ||
           value.find("utf8") != std::string_view::npos;
  }
  return false;
}

EndSignals::EndSignals() {
  end_asked = 0;
  for (const int number : kEnding) handle(number, note_end, 0);
  handle(SIGPIPE, SIG_IGN, 0);
}

EndSignals::~EndSignals() {
  for (const int number : kEnding) handle(number, SIG_DFL, 0);
}

bool EndSignals::asked() { return end_asked != 0; }

Terminal::Terminal() {
  tcgetattr(STDIN_FILENO, &state_before);
  for (const int number : kCrashing) handle(number, crash, static_cast<int>(SA_RESETHAND));
  termios raw = state_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // a suspended demonstration would leave a strange terminal
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  terminal_taken = 1;
  write(std::string(kEnter));
}

Terminal::~Terminal() {
  give_back();
  for (const int number : kCrashing) handle(number, SIG_DFL, 0);
}

TerminalSize Terminal::size() {
  winsize found{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0) return {};
  return {std::min<std::size_t>(found.ws_col, 300), std::min<std::size_t>(found.ws_row, 100)};
}

std::optional<char> Terminal::key(std::chrono::milliseconds patience) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, static_cast<int>(patience.count())) <= 0) return std::nullopt;
  char pressed = 0;
  const ssize_t got = read(STDIN_FILENO, &pressed, 1);
  if (got == 1) return pressed;
  // The terminal was closed: as good as a request to end.
  if (got == 0 || errno == EIO) end_asked = 1;
  return std::nullopt;
}

void Terminal::write(const std::string& text) {
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t sent = ::write(STDOUT_FILENO, left.data(), left.size());
    if (sent < 0 && errno != EINTR) return;
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace outbox
