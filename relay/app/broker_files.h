// The files that the broker's settings name, watched while the relay runs.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "relay/app/log.h"
#include "relay/app/settings.h"
#include "relay/backends.h"
#include "relay/clock.h"

namespace outbox {

// A secret or certificate that can't be read any more leaves what was read before in use: nothing
// fails, until a restart does. So this looks now and then, and tells the log when a file turns bad
// and when it is good again. Confined to the main thread.
class BrokerFiles {
 public:
  static constexpr Duration kEvery = std::chrono::seconds{5};

  // All outlive it. The files were good a moment ago.
  BrokerFiles(const PublisherBackend& backend, const Settings& settings, Log& log,
              const Clock& clock);

  // How long until on_time() has something to do; never without a file.
  std::optional<Duration> wait() const;
  void on_time();

 private:
  const PublisherBackend& backend_;
  const Settings& settings_;
  Log& log_;
  const Clock& clock_;
  std::optional<Time> due_;
  std::set<std::string> bad_;  // the settings whose files are
};

}  // namespace outbox
