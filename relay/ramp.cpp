#include "relay/ramp.h"

#include <algorithm>

namespace outbox {

void Ramp::restart() {
  limit_ = std::min<std::size_t>(1, full_);
  confirmed_ = 0;
}

void Ramp::on_confirmed() {
  if (limit_ >= full_) return;
  ++confirmed_;
  if (confirmed_ < limit_) return;
  limit_ = limit_ > full_ / 2 ? full_ : limit_ * 2;
  confirmed_ = 0;
}

void Ramp::on_failed() { confirmed_ = 0; }

}  // namespace outbox
