// Ends another thread's poll().
#pragma once

namespace outbox {

// Safe from any thread. Throws std::system_error if the system has no descriptor left.
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  // Makes descriptor() readable, until clear().
  void ring();
  void clear();
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

}  // namespace outbox
