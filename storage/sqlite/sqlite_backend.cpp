#include <sqlite3.h>

#include "relay/backends.h"
#include "storage/sqlite/doctor.h"
#include "storage/sqlite/overview.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/sqlite_desk.h"
#include "storage/sqlite/sqlite_store.h"

namespace outbox {
namespace {

std::string check(const StoreSettings& settings) {
  try {
    sqlite::path_of(settings.url);
    sqlite::mapping_of(settings);
    return {};
  } catch (const SettingsError& error) {
    return error.what();
  }
}

std::string apply_ddl(const StoreSettings& settings) {
  const std::string path = sqlite::path_of(settings.url);
  try {
    sqlite::apply_schema(path, sqlite::mapping_of(settings));
    return {};
  } catch (const SQLite::Exception& error) {
    return sqlite::describe(path, error);
  } catch (const std::exception& error) {
    return error.what();
  }
}

Answer<SchemaCheck> check_schema(const StoreSettings& settings) {
  const std::string path = sqlite::path_of(settings.url);
  Answer<SchemaCheck> answer;
  try {
    constexpr auto kPatience = std::chrono::seconds{2};
    sqlite::Connection connection(path, kPatience);
    const sqlite::Mapping mapping = sqlite::mapping_of(settings);
    answer.value = sqlite::compare_schema(connection, mapping);
  } catch (const SQLite::Exception& error) {
    answer.error = sqlite::describe(path, error);
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  return answer;
}

}  // namespace

void add_sqlite_store(Backends& backends) {
  // Nobody asks SQLite how much memory it uses, and counting it takes a lock at each allocation.
  // Without effect once SQLite is in use.
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  StoreBackend backend;
  backend.check = check;
  backend.open_store = [](const StoreSettings& settings, const Clock& clock, Bell& bell) {
    return std::unique_ptr<OutboxStore>(
        std::make_unique<sqlite::SqliteStore>(settings, sqlite::system_clocks(clock), bell));
  };
  backend.open_desk = [](const StoreSettings& settings) {
    return std::unique_ptr<OutboxDesk>(
        std::make_unique<sqlite::SqliteDesk>(settings, sqlite::system_wall_time));
  };
  backend.ddl = [](const StoreSettings& settings) {
    return sqlite::complete_ddl(sqlite::mapping_of(settings));
  };
  backend.apply_ddl = apply_ddl;
  backend.inspect = sqlite::inspect;
  backend.check_schema = check_schema;
  backend.overview = sqlite::overview_of;
  backends.stores["sqlite"] = std::move(backend);
}

}  // namespace outbox
