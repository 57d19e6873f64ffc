#include "publishers/wire/publication_queue.h"

#include <algorithm>
#include <utility>

namespace outbox {

std::size_t PublicationQueue::submit(std::span<const Publication> publications) {
  std::size_t taken = 0;
  {
    const std::lock_guard lock(mutex_);
    taken = std::min(publications.size(), limit_ - owed_);
    waiting_.insert(waiting_.end(), publications.begin(),
                    publications.begin() + static_cast<std::ptrdiff_t>(taken));
    owed_ += taken;
  }
  if (taken == 1) {
    changed_.notify_one();
  } else if (taken > 1) {
    changed_.notify_all();
  }
  return taken;
}

bool PublicationQueue::take(Publication& publication) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
  if (waiting_.empty()) return false;
  publication = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

bool PublicationQueue::try_take(Publication& publication) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return false;
  publication = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

bool PublicationQueue::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

// The place is free before the receipt is seen, or a relay that submits on the last receipt could
// find the queue still full and wait for one that never comes.
void PublicationQueue::report(Receipt receipt) {
  --owed_;
  sink_.deliver(std::move(receipt));
}

void PublicationQueue::recall() {
  std::deque<Publication> unsent;
  {
    const std::lock_guard lock(mutex_);
    std::swap(unsent, waiting_);
  }
  cancel(unsent, "called back before it began");
}

void PublicationQueue::close() {
  std::deque<Publication> unsent;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    std::swap(unsent, waiting_);
  }
  changed_.notify_all();
  cancel(unsent, "the publisher was closed");
}

void PublicationQueue::cancel(const std::deque<Publication>& unsent, const char* why) {
  for (const Publication& publication : unsent) {
    Receipt receipt;
    receipt.ticket = publication.ticket;
    receipt.outcome = Outcome::cancelled;
    receipt.reason = why;
    report(std::move(receipt));
  }
}

}  // namespace outbox
