#include "tests/conformance/isolation_stage.h"

#include <cstdlib>
#include <utility>

namespace outbox::conformance::isolation {

bool proof() { return std::getenv("OUTBOX_PROOF") != nullptr; }

Worker::Worker(std::function<void()> finished)
    : finished_(std::move(finished)), thread_([this] { serve(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  changed_.notify_one();
}

void Worker::serve() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || work_; });
      if (!work_) return;
      work = std::exchange(work_, nullptr);
    }
    work();
    finished_();
  }
}

}  // namespace outbox::conformance::isolation
