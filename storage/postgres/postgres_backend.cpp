#include "relay/backends.h"
#include "storage/mapping/settings_check.h"
#include "storage/postgres/adoption.h"
#include "storage/postgres/detection.h"
#include "storage/postgres/doctor.h"
#include "storage/postgres/grants.h"
#include "storage/postgres/overview.h"
#include "storage/postgres/postgres_desk.h"
#include "storage/postgres/postgres_store.h"
#include "storage/postgres/schema.h"

namespace outbox {
namespace {

std::vector<SettingDefect> check(const StoreSettings& settings) {
  auto defects = check_settings(settings, postgres::dialect(), [&](const std::string& url) {
    StoreSettings part;
    part.url = url;
    part.password_file = settings.password_file;
    postgres::location_of(part);
  });
  try {
    postgres::table_name(settings.table);
  } catch (const SettingsError& error) {
    defects.push_back({"table", error.what()});
  }
  return defects;
}

std::string apply_ddl(const StoreSettings& settings) {
  try {
    postgres::Connection connection(postgres::connection_settings(settings, "init"));
    postgres::apply_schema(connection, settings);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

Answer<SchemaCheck> check_schema(const StoreSettings& settings) {
  return postgres::answered<SchemaCheck>([&](SchemaCheck& check) {
    postgres::Connection connection(postgres::connection_settings(settings, "init"));
    check = postgres::compare_schema(connection, settings);
  });
}

Answer<AdoptionCount> adopt(const StoreSettings& settings, const AdoptionOrder& order) {
  return postgres::answered<AdoptionCount>([&](AdoptionCount& count) {
    postgres::Desk desk(settings, postgres::kServerNow);
    count = postgres::adopt(desk.connection, desk.sql, order, desk.now);
  });
}

Answer<std::vector<TableProposal>> detect(const StoreSettings& settings, const std::string& only) {
  return postgres::answered<std::vector<TableProposal>>([&](std::vector<TableProposal>& found) {
    postgres::Connection connection(postgres::connection_settings(settings, "detect"));
    found = postgres::detect(connection, settings, only);
  });
}

}  // namespace

void add_postgres_store(Backends& backends) {
  StoreBackend backend;
  backend.check = check;
  backend.open_store = [](const StoreSettings& settings, const Clock& clock, Bell& bell) {
    return std::unique_ptr<OutboxStore>(
        std::make_unique<postgres::PostgresStore>(settings, clock, bell));
  };
  // A process has two connections at most, the relay's and one more: its sampler and its clean-up
  // take turns.
  std::mutex* turnstile = backends.turnstile.get();
  backend.open_desk = [turnstile](const StoreSettings& settings) {
    return std::unique_ptr<OutboxDesk>(
        std::make_unique<postgres::PostgresDesk>(settings, postgres::kServerNow, turnstile));
  };
  backend.ddl = postgres::complete_ddl;
  backend.apply_ddl = apply_ddl;
  backend.grants = postgres::grants;
  backend.inspect = postgres::inspect;
  backend.check_schema = check_schema;
  backend.overview = postgres::overview_of;
  backend.adopt = adopt;
  backend.detect = detect;
  backends.stores["postgresql"] = backend;
  backends.stores["postgres"] = std::move(backend);
}

}  // namespace outbox
