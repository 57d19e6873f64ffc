#include "relay/app/demo_outbox.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <random>

namespace outbox {

namespace {

constexpr std::chrono::milliseconds kBusyTimeout{5000};

constexpr const char* kInsert =
    "INSERT INTO outbox_messages (id, event_type, ordering_key, content_type, payload) "
    "VALUES (?, ?, ?, 'application/json', ?)";

// A random UUID (version 4), as an application would use.
std::string fresh_uuid() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  const std::uint64_t high = (random() & ~0xf000ull) | 0x4000ull;
  const std::uint64_t low = (random() >> 2) | 0x8000000000000000ull;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffffffffffffull);
}

}  // namespace

DemoOutbox::DemoOutbox(const std::filesystem::path& folder) : events_(demo_events()) {
  Backends backends;
  add_built_in_backends(backends);
  const auto found = backends.stores.find("sqlite");
  if (found == backends.stores.end()) {
    throw SettingsError("the demonstration needs SQLite, and this program was built without it");
  }
  const StoreBackend& backend = found->second;
  const auto file = folder / "app.db";
  settings_.url = "sqlite://" + file.string();
  if (const std::string error = backend.apply_ddl(settings_); !error.empty()) {
    throw SettingsError(error);
  }
  database_ = std::make_unique<SQLite::Database>(file.string(), SQLite::OPEN_READWRITE,
                                                 static_cast<int>(kBusyTimeout.count()));
  // What an application that keeps its events in WAL mode usually sets.
  database_->exec("PRAGMA synchronous=NORMAL");
  insert_ = std::make_unique<SQLite::Statement>(*database_, kInsert);
  desk_ = backend.open_desk(settings_);
}

std::string DemoOutbox::next_id() { return fresh_uuid(); }

void DemoOutbox::write(const std::string& id) {
  const DemoEvent& event = events_[written_.size() % events_.size()];
  insert_->reset();
  insert_->bind(1, id);
  insert_->bind(2, event.event_type);
  insert_->bind(3, event.ordering_key);
  insert_->bind(4, event.payload.data(), static_cast<int>(event.payload.size()));
  insert_->exec();
  written_.emplace(id, std::hash<std::string>{}(event.payload));
}

}  // namespace outbox
