// Counts the backlog every now and then, on a connection and a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "metrics/metrics.h"
#include "relay/app/log.h"
#include "relay/backends.h"

namespace outbox {

class BacklogSampler {
 public:
  struct Parts {
    Metrics& metrics;
    Log& log;
    const Clock& clock;
  };
  // Called on the sampler's thread with each sample and when it was taken.
  using Take = std::function<void(const Backlog&, Time)>;

  // Samples at once and then each `interval`; sooner again when it failed, since a database may
  // just be about to appear. What the parts refer to outlives the sampler.
  BacklogSampler(const StoreBackend& store, StoreSettings settings, Duration interval, Parts parts,
                 Take take);
  ~BacklogSampler();

  // Ends the thread. A sample under way is finished first: it is bounded by commandTimeout.
  void stop();

  // A sample now. Only after stop().
  std::optional<Backlog> sample();

 private:
  void run(const std::stop_token& stop);

  const StoreBackend& store_;
  const StoreSettings settings_;
  const Duration interval_;
  const Parts parts_;
  const Take take_;
  std::unique_ptr<OutboxDesk> desk_;
  std::string told_error_;

  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace outbox
