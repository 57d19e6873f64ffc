// Removes what is over its time, now and then, on a connection and a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "relay/app/log.h"
#include "relay/backends.h"
#include "relay/retention.h"

namespace outbox {

// Every relay of an outbox does this: what one has removed, the others no longer find, and each
// deletion looks at the row again.
class RetentionThread {
 public:
  // With keyed_dead_stay, dead letters with a key stay, since they hold back the rows behind them.
  // The log outlives the thread.
  RetentionThread(const StoreBackend& store, StoreSettings settings,
                  const RetentionOptions& options, bool keyed_dead_stay, Log& log);
  ~RetentionThread();
  RetentionThread(const RetentionThread&) = delete;
  RetentionThread& operator=(const RetentionThread&) = delete;

  // From any thread: other terms, from the next step on. Begins a clean-up.
  void set(const RetentionOptions& options);

  // Ends the thread. A step under way, which takes milliseconds, is finished first.
  void stop();

 private:
  void run(const std::stop_token& stop);
  // One clean-up, to its end. False if it failed.
  bool clean(const std::stop_token& stop);
  bool rest(const std::stop_token& stop, Duration length, bool wakeable);
  RetentionOptions options();
  bool may_tell(const RetentionOptions& options) const;
  void tell();
  static Duration pause_after(bool cleaned, const RetentionOptions& options);

  const StoreBackend& store_;
  const StoreSettings settings_;
  const bool keyed_dead_stay_;
  Log& log_;
  std::unique_ptr<OutboxDesk> desk_;
  std::string told_error_;
  CleanStep untold_;  // what was removed since the last line about it
  std::optional<std::chrono::steady_clock::time_point> told_at_;

  std::mutex mutex_;  // guards the next two
  RetentionOptions options_;
  bool changed_ = false;
  std::condition_variable_any woken_;
  std::jthread thread_;
};

}  // namespace outbox
