// A terminal: keys as they are pressed, and a screen that is given back.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace outbox {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// A person can watch and press keys: input and output are terminals that can be drawn on.
bool has_terminal();
// NO_COLOR is not set (https://no-color.org).
bool wants_colour();
// The locale says that characters beyond ASCII can be shown.
bool speaks_unicode();

// Takes signals that ask a program to end, as long as it exists: asked() tells. One at a time.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  static bool asked();
};

// While it exists, the terminal shows another screen and hands over each key. The old state comes
// back with the destructor, and also when the program crashes. One at a time.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static TerminalSize size();
  // Waits up to so long for a key.
  static std::optional<char> key(std::chrono::milliseconds patience);
  static void write(const std::string& text);
};

}  // namespace outbox
