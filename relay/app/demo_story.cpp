#include "relay/app/demo_story.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>

#include "relay/app/demo_screen.h"
#include "relay/app/terminal.h"

namespace outbox {

namespace {

using std::chrono::seconds;

constexpr int kTick = 50;  // milliseconds between two looks
constexpr seconds kReportInterval{2};

void say(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

class Story {
 public:
  Story(DemoStage& stage, const DemoSettings& settings) : stage_(stage), settings_(settings) {}

  int tell() {
    say("outbox-relay demo: a SQLite outbox, a writer, the relay, and a receiver that will break.");
    say(
        fmt::format("Settings: breakDuration {} s (default 15), publishTimeout {} s (default 5), "
                    "samples each {} s (default 15).",
                    settings_.break_duration.count(), settings_.publish_timeout.count(),
                    settings_.sample_interval.count()));
    run();
    break_and_mend();
    poison_and_redrive();
    finish();
    say(failed_ ? "Not everything happened as promised." : "Everything happened as promised.");
    return failed_ ? 1 : 0;
  }

 private:
  void chapter(const std::string& text) {
    say(fmt::format("[{:>5.1f} s] {}", seconds_in(), text));
    last_report_ = DemoClock::now();
  }

  double seconds_in() const {
    return std::chrono::duration<double>(DemoClock::now() - began_).count();
  }

  void report() {
    const DemoView& view = stage_.view();
    say(
        fmt::format("[{:>5.1f} s]   written {:<4} waiting {:<4} oldest {:<7} circuit {:<9} "
                    "received {:<4} dead {}",
                    seconds_in(), view.written, waiting_in(view.backlog),
                    for_people(std::chrono::duration<double>(view.relay.oldest_age)),
                    view.relay.circuit, view.receiver.received, view.backlog.dead_lettered));
    last_report_ = DemoClock::now();
  }

  // Moves the stage along until the condition holds. What does not happen in time is a broken
  // promise, and the story goes on: it still has things to show.
  bool wait_for(const std::string& promise, seconds patience,
                const std::function<bool(const DemoView&)>& condition) {
    const auto deadline = DemoClock::now() + patience;
    while (DemoClock::now() < deadline) {
      tick();
      if (condition(stage_.view())) return true;
    }
    check(false, fmt::format("{} (not within {} s)", promise, patience.count()));
    return false;
  }

  void watch(seconds span) {
    for (const auto end = DemoClock::now() + span; DemoClock::now() < end;) tick();
  }

  void tick() {
    if (EndSignals::asked()) throw std::runtime_error("interrupted");
    stage_.advance();
    if (DemoClock::now() - last_report_ >= kReportInterval) report();
    poll(nullptr, 0, kTick);
  }

  void check(bool kept, const std::string& promise) {
    say(fmt::format("  {}  {}", kept ? "ok    " : "FAILED", promise));
    failed_ = failed_ || !kept;
  }

  void run() {
    wait_for("the relay starts and is ready", seconds(10),
             [](const DemoView& view) { return view.relay.ready; });
    chapter("Running: the writer commits events, the relay delivers them.");
    watch(seconds(8));
    wait_for("events are delivered", seconds(10), [](const DemoView& view) {
      return view.receiver.received > 0 && view.relay.published > 0;
    });
  }

  void break_and_mend() {
    chapter("Breaking the receiver: it refuses connections.");
    stage_.set_mood(ReceiverMood::refusing);
    if (wait_for("the circuit opens", seconds(15),
                 [](const DemoView& view) { return view.relay.circuit == "open"; })) {
      chapter("The circuit is open: leasing stopped, the events wait in the outbox.");
    }
    const double probes = stage_.view().relay.probes;
    wait_for("two probes are sent and find it still broken", 5 * settings_.break_duration,
             [probes](const DemoView& view) {
               return view.relay.probes >= probes + 2 && view.relay.circuit == "open";
             });
    const DemoView& broken = stage_.view();
    chapter(fmt::format("One probe per break, nothing else: {} events wait, the oldest for {}.",
                        waiting_in(broken.backlog),
                        for_people(std::chrono::duration<double>(broken.relay.oldest_age))));
    check(broken.backlog.dead_lettered == 0, "the outage made no dead letter");
    check(broken.relay.oldest_age > 3, "the age of the oldest event shows the outage");
    chapter("Mending the receiver.");
    stage_.set_mood(ReceiverMood::working);
    if (wait_for("the circuit closes by itself", 4 * settings_.break_duration,
                 [](const DemoView& view) { return view.relay.circuit == "closed"; })) {
      chapter("A probe was answered: the circuit is closed.");
    }
    if (wait_for("the backlog is delivered", seconds(20), [](const DemoView& view) {
          return view.relay.circuit == "closed" && waiting_in(view.backlog) < 5;
        })) {
      chapter("Recovered: the backlog is delivered.");
    }
    watch(seconds(4));
  }

  void poison_and_redrive() {
    const auto before = stage_.view().backlog.dead_lettered;
    chapter("Poison: the receiver will answer 400 to the next event.");
    stage_.poison_next();
    if (wait_for("the refused event becomes a dead letter", seconds(15),
                 [before](const DemoView& view) {
                   return view.backlog.dead_lettered == before + 1 && !view.dead_letters.empty();
                 })) {
      const DeadLetter& letter = stage_.view().dead_letters.front();
      chapter(fmt::format("One dead letter: {}, {} ({}). The others went on.", letter.event_type,
                          letter.reason, letter.last_error));
    }
    watch(seconds(2));
    const std::uint64_t moved = stage_.redrive();
    chapter(fmt::format("The receiver was mended; an operator redrives {} dead letter.", moved));
    wait_for("the dead letter is pending again", seconds(15),
             [](const DemoView& view) { return view.backlog.dead_lettered == 0; });
  }

  void finish() {
    chapter("The writer stops; the relay is asked to stop and drains.");
    stage_.stop_writing();
    const int code = stage_.stop_relay();
    const DemoView& view = stage_.view();
    print_summary(stage_, code);
    const auto intact = stage_.delivered_unchanged();
    check(intact == view.written,
          fmt::format("each event written was delivered with the very bytes: {} of {}", intact,
                      view.written));
    check(view.receiver.refused == 1, "the poisoned event was refused once, not again and again");
    check(view.backlog.dead_lettered == 0, "no dead letter is left");
    check(waiting_in(view.backlog) == 0, "nothing is left in the outbox, and no lease");
    check(code == 0, "the relay drained and ended with 0");
  }

  DemoStage& stage_;
  const DemoSettings settings_;
  const DemoClock::time_point began_ = DemoClock::now();
  DemoClock::time_point last_report_ = began_;
  bool failed_ = false;
};

}  // namespace

void print_summary(const DemoStage& stage, int relay_exit_code) {
  const DemoView& view = stage.view();
  say("");
  say(fmt::format("  {:>6}  events written", view.written));
  say(fmt::format("  {:>6}  of them received (and {} received twice)", view.receiver.received,
                  view.receiver.repeated));
  say(fmt::format("  {:>6}  waiting at most, {} waiting now, {} dead letters", view.waiting_peak,
                  waiting_in(view.backlog), view.backlog.dead_lettered));
  say(fmt::format("  {:>6.0f}  publish attempts, {:.0f} turned away by the open circuit",
                  view.relay.attempts, view.relay.short_circuited));
  say(fmt::format("  {:>6.0f}  times the circuit opened, failed probes included",
                  view.relay.opened));
  if (relay_exit_code != 0) say(fmt::format("  the relay ended with {}", relay_exit_code));
  say("");
}

int tell_story(DemoStage& stage, const DemoSettings& settings) {
  return Story(stage, settings).tell();
}

}  // namespace outbox
