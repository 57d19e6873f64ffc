// Rings when somebody writes to the database.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "relay/bell.h"
#include "storage/sqlite/lock_file.h"

namespace outbox::sqlite {

// Watches the database's files and their folder by inotify, on a thread of its own. A hint may come
// before the commit it announces is visible, or for nothing, and our own commits ring, too. Where
// inotify fails, or the folder is missing, the relay's poll remains. The bell outlives the watcher.
//
// Each event costs its writer time in the kernel, the application and the relay alike, and a
// transaction is hundreds of writes. So the -wal file is watched for one write at a time, and the
// folder for its entries only: any event that can also concern a file in it would make each write
// to each of them look for the folder's watches.
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
  void watch_directory();
  void watch_lock(const std::string& name);
  int watch_file(const std::string& name, std::uint32_t events);
  void watch_database();
  void forget_watches();
  bool read_events();
  bool handle(int watch, std::uint32_t mask, const std::string& name);
  bool handle_entry(std::uint32_t mask, const std::string& name);
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
  int database_watch_ = -1;
  std::set<int> lock_watches_;

  std::thread thread_;
};

}  // namespace outbox::sqlite
