// Publications between submit() and their receipts: the part of a publisher's promise that has
// nothing to do with its broker.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>

#include "relay/publisher.h"

namespace outbox {

// Safe from any thread. Holds at most `limit` publications, counted from submit() to report(). The
// sink outlives it, and is never called with the lock held.
class PublicationQueue {
 public:
  PublicationQueue(std::size_t limit, ReceiptSink& sink) : limit_(limit), sink_(sink) {}

  // Takes as many from the front as there is room for; never waits.
  std::size_t submit(std::span<const Publication> publications);

  // Waits for a publication; false once the queue is closed. Who takes one owes a report().
  bool take(Publication& publication);

  // The same without waiting; false if there is none.
  bool try_take(Publication& publication);
  bool closed();

  void report(Receipt receipt);

  // Reports what nobody has taken as cancelled.
  void recall();

  // Does so, and lets take() end.
  void close();

 private:
  void cancel(const std::deque<Publication>& unsent, const char* why);

  const std::size_t limit_;
  ReceiptSink& sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Publication> waiting_;    // guarded by mutex_
  bool closed_ = false;                // guarded
  std::atomic<std::size_t> owed_ = 0;  // submitted and not yet reported; raised under mutex_ only
};

}  // namespace outbox
