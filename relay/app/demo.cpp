#include "relay/app/demo.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "relay/app/demo_screen.h"
#include "relay/app/demo_stage.h"
#include "relay/app/demo_story.h"
#include "relay/app/terminal.h"

namespace outbox {

namespace {

constexpr std::chrono::milliseconds kTick{50};  // to wait for a key
constexpr std::chrono::milliseconds kFrameInterval{200};

// What a key does, and what to say about it. Empty: the key means nothing.
std::string obey(char key, DemoStage& stage) {
  const ReceiverMood mood = stage.view().mood;
  switch (key) {
    case 'b':
      if (mood == ReceiverMood::refusing) break;
      stage.set_mood(ReceiverMood::refusing);
      return "Broken: the receiver refuses connections. Soon the circuit opens. b mends it.";
    case 'h':
      if (mood == ReceiverMood::hanging) break;
      stage.set_mood(ReceiverMood::hanging);
      return "The receiver hangs: each attempt ends by its time-out. h mends it.";
    case 'p':
      stage.poison_next();
      return "The next event will be refused with 400: a dead letter. r redrives it.";
    case 'r':
      return fmt::format("Redriven: {} dead letters are pending again.", stage.redrive());
    default:
      return {};
  }
  stage.set_mood(ReceiverMood::working);
  return "Mended. When the break is over, one probe finds out and the circuit closes.";
}

// Until the person has seen enough.
void show(DemoStage& stage) {
  const Terminal terminal;
  const bool colour = wants_colour();
  const bool unicode = speaks_unicode();
  std::string message = "Each event goes from the outbox to the receiver. Break it: press b.";
  DemoClock::time_point last_frame{};
  while (!EndSignals::asked()) {
    const auto key = Terminal::key(kTick);
    if (key == 'q') return;
    if (key) {
      if (std::string said = obey(*key, stage); !said.empty()) message = std::move(said);
    }
    stage.advance();
    if (DemoClock::now() - last_frame >= kFrameInterval || key) {
      last_frame = DemoClock::now();
      const TerminalSize size = Terminal::size();
      Terminal::write(draw(stage.view(), message, size.columns, size.rows, unicode).frame(colour));
    }
  }
}

int run_for_person(DemoStage& stage) {
  show(stage);
  std::puts("Stopping: the relay delivers what is due.");
  std::fflush(stdout);
  stage.stop_writing();
  stage.set_mood(ReceiverMood::working);
  print_summary(stage, stage.stop_relay());
  return 0;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  const EndSignals signals;
  try {
    const DemoSettings settings;
    DemoStage stage(options, settings);
    const bool plain = options.automatic || !has_terminal();
    return plain ? tell_story(stage, settings) : run_for_person(stage);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fputs(fmt::format("outbox-relay demo: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}

}  // namespace outbox
