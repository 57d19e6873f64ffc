#include <sqlite3.h>

#include "relay/backends.h"
#include "storage/sqlite/adoption.h"
#include "storage/sqlite/answered.h"
#include "storage/sqlite/detection.h"
#include "storage/sqlite/doctor.h"
#include "storage/sqlite/overview.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/sqlite_desk.h"
#include "storage/sqlite/sqlite_store.h"

namespace outbox {
namespace {

// Tries each setting by itself, beside good ones, so that all that are wrong are told at once.
class SettingsCheck {
 public:
  explicit SettingsCheck(const StoreSettings& settings) : settings_(settings) {}

  std::vector<SettingDefect> run() {
    attempt("url", [this] { sqlite::path_of(settings_.url); });
    alone("table", [this](StoreSettings& part) { part.table = settings_.table; });
    alone("preset", [this](StoreSettings& part) { part.preset = settings_.preset; });
    alone("times", [this](StoreSettings& part) { part.times = settings_.times; });
    alone("guids", [this](StoreSettings& part) { part.guids = settings_.guids; });
    for (const auto& column : settings_.columns) {
      alone("columns." + column.first, [&](StoreSettings& part) { part.columns = {column}; });
    }
    for (const auto& state : settings_.states) {
      // Without a status column, since two states that are exchanged look alike one by one.
      alone("states." + state.first, [&](StoreSettings& part) {
        part.columns = {{"status", ""}};
        part.states = {state};
      });
    }
    if (defects_.empty()) attempt("states", [this] { sqlite::mapping_of(settings_); });
    return std::move(defects_);
  }

 private:
  template <class Try>
  void attempt(const std::string& setting, const Try& what) {
    try {
      what();
    } catch (const SettingsError& error) {
      defects_.push_back({setting, error.what()});
    }
  }

  template <class Change>
  void alone(const std::string& setting, const Change& change) {
    StoreSettings part;
    change(part);
    attempt(setting, [&part] { sqlite::mapping_of(part); });
  }

  const StoreSettings& settings_;
  std::vector<SettingDefect> defects_;
};

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
  backend.check = [](const StoreSettings& settings) { return SettingsCheck(settings).run(); };
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
  backend.adopt = adopt;
  backend.detect = detect;
  backends.stores["sqlite"] = std::move(backend);
}

}  // namespace outbox
