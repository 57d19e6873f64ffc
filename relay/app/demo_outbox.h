// The demonstration's application side: a database with an outbox, and who writes into it.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/app/demo_events.h"
#include "relay/backends.h"
#include "relay/outbox_desk.h"

namespace outbox {

// Confined to one thread. Writing throws what SQLite throws: the demonstration ends then, since the
// relay must never make an application's write fail.
class DemoOutbox {
 public:
  // Creates the database and its tables in the folder. Throws SettingsError.
  explicit DemoOutbox(const std::filesystem::path& folder);

  const std::string& url() const { return settings_.url; }

  // Inserts one event in a transaction of its own.
  void write(const std::string& id);
  // A fresh event id. Separate from write() so that a receiver can be told to refuse it first.
  std::string next_id();

  // What was written: event id -> hash of the payload.
  const std::unordered_map<std::string, std::size_t>& written() const { return written_; }

  // An operator's view and orders, on a connection of its own.
  OutboxDesk& desk() { return *desk_; }

 private:
  StoreSettings settings_;
  std::vector<DemoEvent> events_;
  std::unique_ptr<SQLite::Database> database_;
  std::unique_ptr<SQLite::Statement> insert_;
  std::unique_ptr<OutboxDesk> desk_;
  std::unordered_map<std::string, std::size_t> written_;
};

}  // namespace outbox
