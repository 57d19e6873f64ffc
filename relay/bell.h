// Wakes a sleeping relay loop.
#pragma once

namespace outbox {

// Safe from any thread, and cheap to ring twice.
class Bell {
 public:
  virtual ~Bell() = default;
  // Something happened that the relay may want to look at.
  virtual void ring() = 0;
  // The same, and the outbox may have new rows.
  virtual void hint() { ring(); }
};

}  // namespace outbox
