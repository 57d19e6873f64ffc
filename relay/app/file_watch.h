// Notices that a file may have changed.
#pragma once

#include <string>
#include <vector>

#include "metrics/listen_socket.h"

namespace outbox {

// Watches the folders of the file and of what it links to, not the file: editors and deployments
// put another one in its place, and Kubernetes exchanges the link `..data` beside it. Confined to
// one thread.
class FileWatch {
 public:
  explicit FileWatch(std::string path);

  // To be polled; -1 when nothing can be watched.
  int descriptor() const { return watch_.get(); }
  // Why the file's folder can't be watched; empty if it is.
  const std::string& error() const { return error_; }
  // Reads what has happened. True if the file may have changed.
  bool take_events();
  // Whether the file was made anew and whoever did that has not closed it yet: half of a
  // configuration may look like a whole one.
  bool being_written() const { return being_written_; }

 private:
  void watch_folders();
  bool concerns(const std::string& name) const;
  bool is_new_file(const std::string& name) const;

  const std::string path_;
  const OwnedFd watch_;
  std::string error_;
  std::vector<std::string> names_;  // whose changes matter
  bool being_written_ = false;
};

}  // namespace outbox
