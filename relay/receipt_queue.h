// Receipts on their way from the publishers' threads to the relay's.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "relay/bell.h"
#include "relay/publisher.h"

namespace outbox {

// Safe from any thread. Bounded by what the relay has submitted: one receipt a publication.
class ReceiptQueue final : public ReceiptSink {
 public:
  explicit ReceiptQueue(Bell& bell) : bell_(bell) {}

  void deliver(Receipt receipt) override {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = receipts_.empty();
      receipts_.push_back(std::move(receipt));
    }
    if (first) bell_.ring();
  }

  // Moves everything that has arrived into `into`, which is cleared first.
  void take(std::vector<Receipt>& into) {
    into.clear();
    const std::lock_guard lock(mutex_);
    std::swap(into, receipts_);
  }

 private:
  Bell& bell_;
  std::mutex mutex_;
  std::vector<Receipt> receipts_;
};

}  // namespace outbox
