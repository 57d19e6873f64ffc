#include "relay/relay_loop.h"

#include <algorithm>
#include <utility>

namespace outbox {

LoopEnd RelayLoop::run(std::stop_token stop) {
  const std::stop_callback wake_on_stop(stop, [this] { waker_.ring(); });
  std::optional<Time> abandon_at;
  std::optional<Time> give_up_at;
  while (true) {
    const Time now = clock_.now();
    if (stop.stop_requested() && !abandon_at) {
      relay_.stop();
      abandon_at = now + options_.drain_timeout;
      give_up_at = *abandon_at + options_.settle_timeout;
    }
    if (abandon_at && now >= *abandon_at) relay_.abandon();

    if (auto tuning = tunings_.take()) relay_.retune(*std::move(tuning));
    Time next = relay_.step();
    board_.write(relay_.status(), clock_.now());
    if (abandon_at && relay_.drained()) break;
    if (give_up_at && now >= *give_up_at) break;
    if (abandon_at) next = std::min(next, now < *abandon_at ? *abandon_at : *give_up_at);
    if (waker_.wait_until(next).hinted) relay_.hint();
  }
  board_.finish();
  return LoopEnd{.drained = relay_.drained()};
}

}  // namespace outbox
