#include "relay/app/retention_thread.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace outbox {
namespace {

constexpr Duration kBeforeTheFirst = std::chrono::seconds{2};  // a start has better things to do
constexpr Duration kAtOnce = std::chrono::seconds{1};          // between clean-ups with a term of 0
constexpr Duration kAfterDeadLetters = std::chrono::seconds{10};
constexpr Duration kAfterFailure = std::chrono::seconds{10};

bool has_work(const RetentionOptions& options) {
  return options.processed || options.dead_lettered || options.attempts;
}

bool is_at_once(const RetentionOptions& options) {
  const auto zero = [](const std::optional<Duration>& term) { return term == Duration{0}; };
  return zero(options.processed) || zero(options.dead_lettered) || zero(options.attempts);
}

CleanRequest request_of(const RetentionOptions& options, bool keyed_dead_stay) {
  return {.processed = options.processed,
          .dead_lettered = options.dead_lettered,
          .attempts = options.attempts,
          .chunk = options.chunk,
          .keyed_dead_stay = keyed_dead_stay};
}

}  // namespace

RetentionThread::RetentionThread(const StoreBackend& store, StoreSettings settings,
                                 const RetentionOptions& options, bool keyed_dead_stay, Log& log)
    : store_(store),
      settings_(std::move(settings)),
      keyed_dead_stay_(keyed_dead_stay),
      log_(log),
      options_(options),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

RetentionThread::~RetentionThread() { stop(); }

void RetentionThread::set(const RetentionOptions& options) {
  {
    const std::lock_guard lock(mutex_);
    options_ = options;
    changed_ = true;
  }
  woken_.notify_all();
}

void RetentionThread::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

RetentionOptions RetentionThread::options() {
  const std::lock_guard lock(mutex_);
  return options_;
}

// Returns whether to go on.
bool RetentionThread::rest(const std::stop_token& stop, Duration length, bool wakeable) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, stop, length, [&] { return wakeable && changed_; });
  if (wakeable) changed_ = false;
  return !stop.stop_requested();
}

Duration RetentionThread::pause_after(bool cleaned, const RetentionOptions& options) {
  if (!cleaned) return std::min(options.interval, kAfterFailure);
  return is_at_once(options) ? std::min(options.interval, kAtOnce) : options.interval;
}

void RetentionThread::run(const std::stop_token& stop) {
  if (!rest(stop, std::min(options().interval, kBeforeTheFirst), true)) return;
  while (true) {
    const bool cleaned = !has_work(options()) || clean(stop);
    // Gives back what the clean-up left in the heap.
    malloc_trim(0);
    if (!rest(stop, pause_after(cleaned, options()), true)) break;
  }
  tell();
}

bool RetentionThread::clean(const std::stop_token& stop) {
  if (!desk_) desk_ = store_.open_desk(settings_);
  while (true) {
    const auto step = desk_->clean(request_of(options(), keyed_dead_stay_));
    if (!step.ok()) {
      if (step.error != told_error_)
        log_.warn("clean-up failed; it is tried again", {{"error", step.error}});
      told_error_ = step.error;
      return false;
    }
    untold_.processed += step.value.processed;
    untold_.dead_lettered += step.value.dead_lettered;
    untold_.attempts += step.value.attempts;
    untold_.audit += step.value.audit;
    untold_.orphans += step.value.orphans;
    untold_.held = std::max(untold_.held, step.value.held);
    if (step.value.done || !rest(stop, step.value.rest, false)) break;
  }
  told_error_.clear();
  if (may_tell(options())) tell();
  return true;
}

// With a term of 0 there would be a line each second: those are summed up, and dead letters wait
// least.
bool RetentionThread::may_tell(const RetentionOptions& options) const {
  if (!told_at_ || !is_at_once(options)) return true;
  const Duration pause = untold_.dead_lettered > 0 ? kAfterDeadLetters : options.interval;
  return std::chrono::steady_clock::now() - *told_at_ >= std::min(pause, options.interval);
}

void RetentionThread::tell() {
  const CleanStep all = std::exchange(untold_, {});
  if (all.removed() == 0) return;
  told_at_ = std::chrono::steady_clock::now();
  log_.info("removed what was over its time", {{"processed", all.processed},
                                               {"dead_lettered", all.dead_lettered},
                                               {"attempts", all.attempts},
                                               {"audit", all.audit},
                                               {"orphans", all.orphans},
                                               {"lock_held_seconds_max", all.held}});
}

}  // namespace outbox
