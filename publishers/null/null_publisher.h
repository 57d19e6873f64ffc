// The broker that accepts everything and keeps nothing: for measuring, and for a first try.
#pragma once

#include <cstddef>
#include <span>

#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

// Confirms in submit(). Owns no thread; the clock and the sink outlive it.
class NullPublisher final : public Publisher {
 public:
  NullPublisher(const Clock& clock, ReceiptSink& sink) : clock_(clock), sink_(sink) {}

  std::size_t submit(std::span<const Publication> publications) override;
  void recall() override {}  // everything is confirmed at once

 private:
  const Clock& clock_;
  ReceiptSink& sink_;
};

// Registers the scheme `null`.
void add_null_publisher(Backends& backends);

}  // namespace outbox
