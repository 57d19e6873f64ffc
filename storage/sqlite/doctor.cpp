#include "storage/sqlite/doctor.h"

#include <utility>

#include "storage/sqlite/dialect.h"
#include "storage/sqlite/doctor_checks.h"
#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

constexpr auto kPatience = std::chrono::seconds{2};

void add_unreadable(const std::string& what, Findings& findings) {
  findings.push_back({.severity = Severity::error,
                      .code = "database_unreadable",
                      .what = what,
                      .why = "The relay can't open it either.",
                      .fix = "Do what the message says; the relay goes on by itself.",
                      .unreachable = true});
}

// The database can't tell how others open it.
void add_synchronous(Findings& findings) {
  findings.push_back(
      {.severity = Severity::information,
       .code = "synchronous_unknown",
       .what = "Whether the application commits with synchronous NORMAL or FULL can't be seen "
               "from outside.",
       .why = "With OFF, a power cut may undo a commit whose event was delivered already.",
       .fix_kind = FixKind::sql,
       .fix = "PRAGMA synchronous=NORMAL;  -- in the application, on each connection; or FULL"});
}

void check_contents(Connection& connection, const StoreSettings& settings, Findings& findings) {
  const BootClock boot;
  const Clocks clocks = system_clocks(boot);
  Mapping mapping = mapping_of(settings);
  if (!check_schema(connection, settings, mapping, findings)) return;
  mapping = require_outbox(connection, mapping);
  check_triggers(connection, mapping, findings);
  check_rows(connection, mapping, clocks, findings);
  check_adoption(connection, mapping, clocks, findings);
  check_plan(connection, mapping, findings);
  check_relays(connection, mapping.table, clocks, findings);
}

}  // namespace

std::vector<Finding> inspect(const StoreSettings& settings) {
  Findings findings;
  const std::string path = path_of(settings.url);
  if (!check_place(settings, findings)) return findings;
  check_log(settings, findings);
  try {
    Connection connection(path, kPatience);
    connection.database().exec("PRAGMA query_only=ON");
    check_contents(connection, settings, findings);
    add_synchronous(findings);
  } catch (const SQLite::Exception& error) {
    add_unreadable(describe(path, error), findings);
  } catch (const std::exception& error) {
    add_unreadable(error.what(), findings);
  }
  return findings;
}

}  // namespace outbox::sqlite
