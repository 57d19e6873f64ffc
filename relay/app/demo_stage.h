// Everything that takes part in the demonstration, and what can be seen of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "relay/app/demo.h"
#include "relay/app/demo_outbox.h"
#include "relay/app/demo_receiver.h"
#include "relay/app/demo_relay.h"
#include "relay/outbox_desk.h"

namespace outbox {

using DemoClock = std::chrono::steady_clock;

// The settings that differ from the relay's defaults, so that the story fits a minute.
struct DemoSettings {
  std::chrono::seconds break_duration{5};   // default 15s
  std::chrono::seconds publish_timeout{2};  // default 5s
  std::chrono::seconds sample_interval{1};  // default 15s
};

// The configuration file that the relay is started with.
std::string demo_configuration(const DemoSettings& settings, const std::string& store_url,
                               std::uint16_t receiver_port);

// What there is to see. Numbers of the relay are its own, from /metrics; those of the outbox are
// counted in the table; those of writer and receiver are theirs.
struct DemoView {
  std::chrono::duration<double> elapsed{0};
  std::uint64_t written = 0;
  double write_rate = 0;  // events a second
  Backlog backlog;
  RelayNumbers relay;
  ReceiverMood mood = ReceiverMood::working;
  ReceiverTally receiver;
  double receive_rate = 0;
  std::chrono::duration<double> circuit_for{0};  // since the circuit's last change
  std::vector<std::uint64_t> waiting;            // undelivered rows, one sample a second
  std::uint64_t waiting_peak = 0;
  std::vector<DeadLetter> dead_letters;
  std::deque<std::string> log;  // the relay's last lines
};

// Rows that are neither delivered nor dead.
std::uint64_t waiting_in(const Backlog& backlog);

// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws std::system_error
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Builds the outbox, the receiver and the relay, and moves them along. Confined to one thread.
class DemoStage {
 public:
  // Throws SettingsError or std::system_error when the stage can't be set.
  DemoStage(const DemoOptions& options, const DemoSettings& settings);

  // Writes the events that are due, reads the relay's output and, a few times a second, its
  // numbers. Call it about twenty times a second. Throws std::runtime_error if the relay is gone.
  void advance();
  const DemoView& view() const { return view_; }

  void set_mood(ReceiverMood mood) { receiver_.set_mood(mood); }
  // The receiver will answer 400 to the next event, and to it alone.
  void poison_next() { poison_ = true; }
  // What an operator does after mending the receiver: dead letters go back to Pending. Returns how
  // many; throws std::runtime_error when the outbox can't be reached.
  std::uint64_t redrive();

  void stop_writing() { writing_ = false; }
  // Stops the relay as a shutdown does and waits for its end: its exit code, -1 if it was killed
  // or took too long.
  int stop_relay();

  // How many written events the receiver has, with the very bytes.
  std::uint64_t delivered_unchanged() const;

 private:
  void write_due();
  void look();
  void remember_rates(DemoClock::time_point now);
  void read_log();

  TemporaryFolder folder_;
  DemoOutbox outbox_;
  DemoReceiver receiver_;
  std::uint16_t http_port_ = 0;  // known once the relay has said it
  std::unique_ptr<DemoProcess> relay_;

  struct Mark {
    DemoClock::time_point time;
    std::uint64_t written = 0;
    std::uint64_t received = 0;
  };

  const double rate_;
  const DemoClock::time_point began_;
  DemoClock::time_point writer_time_;  // up to here, all events that are due were written
  DemoClock::time_point last_look_{};
  DemoClock::time_point last_sample_{};
  DemoClock::time_point circuit_since_;
  std::deque<Mark> marks_;
  bool writing_ = true;
  bool poison_ = false;
  DemoView view_;
};

}  // namespace outbox
