#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "relay/app/exit_codes.h"
#include "relay/app/live_relay.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"
#include "relay/app/terminal.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Duration kFirstPause = std::chrono::milliseconds{50};
constexpr Duration kPauseMax = std::chrono::seconds{1};

// One look: whether it holds, whether that could be told, and what was seen.
struct Look {
  bool holds = false;
  bool told = true;
  std::string seen;
};

class Watch {
 public:
  Watch(const Config& config, const Backends& backends, const WaitOptions& options)
      : settings_(config.settings.store),
        backends_(backends),
        condition_(options.condition),
        url_(options.url.empty() ? url_of(config.settings.listen) : options.url) {}

  Look look() {
    switch (condition_) {
      case Condition::drained:
      case Condition::empty_dead_letters:
        return look_at_backlog();
      case Condition::ready:
        return look_at_relay();
      case Condition::table:
        return look_at_table();
    }
    return {};
  }

 private:
  const StoreBackend& store() const { return backends_.stores.at(scheme_of(settings_.url)); }

  Look look_at_backlog() {
    if (!desk_) desk_ = store().open_desk(settings_);
    const auto answer = desk_->backlog();
    if (!answer.ok()) return {.holds = false, .told = false, .seen = answer.error};
    const Backlog& backlog = answer.value;
    if (condition_ == Condition::empty_dead_letters) {
      return {.holds = backlog.dead_lettered == 0,
              .told = true,
              .seen = counted(backlog.dead_lettered, "dead letter")};
    }
    const std::uint64_t left = backlog.pending + backlog.failed + backlog.leased;
    return {.holds = left == 0,
            .told = true,
            .seen = fmt::format("{} {} not delivered yet", counted(left, "event"),
                                left == 1 ? "is" : "are")};
  }

  Look look_at_relay() const {
    const LiveRelay relay = ask_relay(url_);
    if (!relay.answers) return {.holds = false, .told = false, .seen = relay.error};
    return {.holds = relay.ready,
            .told = true,
            .seen = relay.ready ? "ready" : relay.state + ": " + relay.reason};
  }

  Look look_at_table() const {
    const auto answer = store().check_schema(settings_);
    if (!answer.ok()) return {.holds = false, .told = false, .seen = answer.error};
    return {.holds = answer.value.table_usable,
            .told = true,
            .seen = answer.value.table_usable
                        ? "the table is there"
                        : fmt::format("the table {} is missing or not complete", settings_.table)};
  }

  const StoreSettings& settings_;
  const Backends& backends_;
  std::unique_ptr<OutboxDesk> desk_;
  const Condition condition_;
  const std::string url_;
};

}  // namespace

int wait_for(const Config& config, const Backends& backends, const WaitOptions& options) {
  if (options.condition != Condition::ready && config.settings.store.url.empty()) {
    say("store.url is not set; give --store URL");
    return kBadConfiguration;
  }
  // Also as the first process of a container, for which the kernel ignores signals without a
  // handler.
  const EndSignals signals;
  Watch watch(config, backends, options);
  const auto end = SteadyClock::now() + options.timeout;
  Duration pause = kFirstPause;
  while (true) {
    const Look look = watch.look();
    if (look.holds) return kDone;
    const Duration left = end - SteadyClock::now();
    if (left <= Duration::zero() || EndSignals::asked()) {
      const std::string when = EndSignals::asked()
                                   ? "ended by a signal"
                                   : "not within " + format_duration(options.timeout);
      say(fmt::format("{}: {}", when, printable_sentence(look.seen)));
      return look.told ? kFailed : kNotReachable;
    }
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, kPauseMax);
  }
}

}  // namespace outbox
