#include <sqlite3.h>

#include "relay/backends.h"
#include "storage/mapping/settings_check.h"
#include "storage/sqlite/adoption.h"
#include "storage/sqlite/answered.h"
#include "storage/sqlite/detection.h"
#include "storage/sqlite/dialect.h"
#include "storage/sqlite/doctor.h"
#include "storage/sqlite/overview.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/sqlite_desk.h"
#include "storage/sqlite/sqlite_store.h"

namespace outbox {
namespace {

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

constexpr auto kPatience = std::chrono::seconds{5};

template <class Value, class Ask>
Answer<Value> ask(const StoreSettings& settings, const Ask& question) {
  const std::string path = sqlite::path_of(settings.url);
  return sqlite::answered<Value>(path, [&](Value& value) {
    sqlite::Connection connection(path, kPatience);
    question(connection, value);
  });
}

Answer<SchemaCheck> check_schema(const StoreSettings& settings) {
  return ask<SchemaCheck>(settings, [&](sqlite::Connection& connection, SchemaCheck& check) {
    check = sqlite::compare_schema(connection, sqlite::mapping_of(settings));
  });
}

Answer<AdoptionCount> adopt(const StoreSettings& settings, const AdoptionOrder& order) {
  return ask<AdoptionCount>(settings, [&](sqlite::Connection& connection, AdoptionCount& count) {
    const sqlite::BootClock boot;
    const sqlite::Clocks clocks = sqlite::system_clocks(boot);
    const auto mapping = sqlite::require_outbox(connection, sqlite::mapping_of(settings));
    if (order.dry_run) {
      sqlite::prepare_to_look(connection, mapping);
    } else {
      sqlite::require_relay_tables(connection, settings.create_relay_tables);
    }
    count = sqlite::adopt(connection, sqlite::Sql(connection, mapping), order, clocks);
  });
}

Answer<std::vector<TableProposal>> detect(const StoreSettings& settings, const std::string& only) {
  using Proposals = std::vector<TableProposal>;
  return ask<Proposals>(settings, [&](sqlite::Connection& connection, Proposals& proposals) {
    const sqlite::BootClock boot;
    const sqlite::Clocks clocks = sqlite::system_clocks(boot);
    proposals = sqlite::detect(connection, settings, only, clocks);
  });
}

}  // namespace

void add_sqlite_store(Backends& backends) {
  // Nobody asks SQLite how much memory it uses, and counting it takes a lock at each allocation.
  // Without effect once SQLite is in use.
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  StoreBackend backend;
  backend.check = [](const StoreSettings& settings) {
    return check_settings(settings, sqlite::dialect(),
                          [](const std::string& url) { sqlite::path_of(url); });
  };
  backend.open_store = [](const StoreSettings& settings, const Clock& clock, Bell& bell) {
    return std::unique_ptr<OutboxStore>(
        std::make_unique<sqlite::SqliteStore>(settings, sqlite::system_clocks(clock), bell));
  };
  backend.open_desk = [](const StoreSettings& settings) {
    return std::unique_ptr<OutboxDesk>(
        std::make_unique<sqlite::SqliteDesk>(settings, system_wall_time));
  };
  backend.ddl = [](const StoreSettings& settings) {
    return sqlite::complete_ddl(sqlite::mapping_of(settings));
  };
  backend.apply_ddl = apply_ddl;
  backend.inspect = sqlite::inspect;
  backend.check_schema = check_schema;
  backend.overview = sqlite::overview_of;
  backend.adopt = adopt;
  backend.detect = detect;
  backends.stores["sqlite"] = std::move(backend);
}

}  // namespace outbox
