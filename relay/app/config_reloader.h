// Reads a changed configuration file while the relay runs.
#pragma once

#include <functional>
#include <optional>

#include "metrics/metrics.h"
#include "relay/app/config_reload.h"
#include "relay/app/file_watch.h"
#include "relay/app/log.h"
#include "relay/clock.h"

namespace outbox {

// Notices changes, reads, tells log and metrics what came of it, and hands over what applies at
// once. A file that is wrong changes nothing. Confined to the main thread.
class ConfigReloader {
 public:
  struct Parts {
    const Backends& backends;
    Log& log;
    Metrics& metrics;
    const Clock& clock;
  };
  // Takes over settings that apply at once.
  using Apply = std::function<void(const Settings&)>;

  // What changes within this time of the first change is read with it: a file may be replaced in
  // steps.
  static constexpr Duration kQuiet = std::chrono::milliseconds{200};

  // So long is waited for whoever has made the file anew and not closed it yet.
  static constexpr Duration kWriting = std::chrono::seconds{10};

  // What the parts refer to outlives it.
  ConfigReloader(const Config& config, Parts parts, Apply apply);

  // To be polled; on_readable() when there is something to read.
  int descriptor() const { return watch_.descriptor(); }
  void on_readable();
  // How long until on_time() has something to do, if it has.
  std::optional<Duration> wait() const;
  void on_time();

  // Reads now, and says so even if nothing has changed: somebody asked for it.
  void reload();

 private:
  void read_again(bool asked);
  void refuse(const std::vector<Problem>& problems);
  void tell(const ConfigChange& change);
  void tell_agreeing(const ConfigChange& change);

  const Parts parts_;
  const Apply apply_;
  ConfigInput input_;
  Config in_force_;
  FileWatch watch_;
  std::optional<Time> due_;
  bool waits_for_writer_ = false;
  bool refused_ = false;                 // the last file that was read
  std::vector<std::string> restarting_;  // what differed in it and needs a restart
};

}  // namespace outbox
