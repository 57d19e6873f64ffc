// The demonstration: an outbox in a temporary folder, a writer that inserts real events, the real
// relay as a child process, and a receiver that can be broken and mended.
#pragma once

#include <cstdint>
#include <string>

namespace outbox {

struct DemoOptions {
  std::string program;      // the binary that runs the relay; empty: the one that runs now
  bool automatic = false;   // tell the story without a keyboard, also on a terminal
  std::uint32_t rate = 20;  // events written a second, 1 to 200
};

// Draws on the terminal and obeys the keyboard; without a terminal, or when asked to, plays the
// story by itself, prints plain lines and checks what it promises. Talks on stdout. Returns the
// exit code: 0 when everything it promises happened, 1 when not. Removes what it made.
int run_demo(const DemoOptions& options);

}  // namespace outbox
