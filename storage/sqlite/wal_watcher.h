// Rings when somebody writes to the database.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "relay/bell.h"
#include "storage/sqlite/lock_file.h"

namespace outbox::sqlite {

// Watches the -wal file and its folder by inotify, on a thread of its own. A hint may come before
// the commit it announces is visible, and our own commits ring, too. Where inotify fails, or the
// folder is missing, the relay's poll remains. The bell outlives the watcher.
class WalWatcher {
 public:
  WalWatcher(const std::string& database_path, Bell& bell);
  ~WalWatcher();
  WalWatcher(const WalWatcher&) = delete;
  WalWatcher& operator=(const WalWatcher&) = delete;

  // Whether a relay's lock file was closed, removed or created since the last call. Any thread.
  bool take_peer_change() { return peer_changed_.exchange(false); }

 private:
  void run();
  void watch();
  bool read_events();
  bool handle(int watch, unsigned mask, const std::string& name);
  bool stop_requested_within(std::chrono::nanoseconds wait) const;

  const std::string database_path_;
  Bell& bell_;
  std::atomic<bool> peer_changed_{false};
  FileHandle inotify_;
  FileHandle stop_;

  // The watcher's thread only.
  std::string directory_;
  std::string wal_name_;
  std::string database_name_;
  int directory_watch_ = -1;
  int wal_watch_ = -1;

  std::thread thread_;
};

}  // namespace outbox::sqlite
