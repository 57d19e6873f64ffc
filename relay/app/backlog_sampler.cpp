#include "relay/app/backlog_sampler.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace outbox {

BacklogSampler::BacklogSampler(const StoreBackend& store, StoreSettings settings, Duration interval,
                               Parts parts, Take take)
    : store_(store),
      settings_(std::move(settings)),
      interval_(interval),
      parts_(parts),
      take_(std::move(take)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BacklogSampler::~BacklogSampler() { stop(); }

void BacklogSampler::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void BacklogSampler::run(const std::stop_token& stop) {
  constexpr Duration kAfterFailure = std::chrono::seconds{1};
  while (!stop.stop_requested()) {
    const bool sampled = sample().has_value();
    // Gives back what a burst of messages left in the heap: a sidecar idles most of the time.
    malloc_trim(0);
    std::unique_lock lock(mutex_);
    const Duration pause = sampled ? interval_ : std::min(interval_, kAfterFailure);
    stopped_.wait_for(lock, stop, pause, [] { return false; });
  }
}

std::optional<Backlog> BacklogSampler::sample() {
  const Time began = parts_.clock.now();
  if (!desk_) desk_ = store_.open_desk(settings_);
  const auto answer = desk_->backlog();
  parts_.metrics.on_store_operation(StoreOperation::sample, parts_.clock.now() - began,
                                    answer.ok());
  if (!answer.ok()) {
    if (answer.error != told_error_) parts_.log.debug("backlog unknown", {{"error", answer.error}});
    told_error_ = answer.error;
    return std::nullopt;
  }
  told_error_.clear();
  take_(answer.value, began);
  return answer.value;
}

}  // namespace outbox
