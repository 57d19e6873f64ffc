#include "storage/sqlite/location.h"

#include <doctest/doctest.h>

#include "relay/backends.h"
#include "storage/mapping/mapping.h"
#include "storage/sqlite/dialect.h"

namespace outbox::sqlite {
namespace {

TEST_CASE("a URL names an absolute or a relative path") {
  CHECK(path_of("sqlite:///data/app.db") == "/data/app.db");
  CHECK(path_of("sqlite:/data/app.db") == "/data/app.db");
  CHECK(path_of("sqlite:app.db") == "./app.db");
  CHECK(path_of("sqlite:data/app.db") == "./data/app.db");
}

TEST_CASE("a name that SQLite would take for something else stays a file's") {
  CHECK(path_of("sqlite:file:app.db") == "./file:app.db");
}

TEST_CASE("URLs that name no file are refused") {
  for (const char* url :
       {"sqlite:", "sqlite://", "sqlite://host/app.db", "sqlite:///", "sqlite:/data/",
        "sqlite::memory:", "sqlite:///app.db?mode=ro", "postgres:app", ""}) {
    CAPTURE(url);
    CHECK_THROWS_AS(path_of(url), SettingsError);
  }
}

TEST_CASE("a missing file has no identity and a reason to be given") {
  CHECK_FALSE(identity_of("/nowhere/app.db").has_value());
  CHECK(location_problem("/nowhere/app.db").find("/nowhere/app.db") != std::string::npos);
  CHECK(location_problem("/tmp").find("not a file") != std::string::npos);
}

TEST_CASE("table names are checked before they reach any SQL") {
  StoreSettings settings;
  settings.table = "orders_outbox";
  CHECK(mapping_of(settings).table == "orders_outbox");
  settings.table = "cap.\"published\" of [the] shop's";  // quoted, any name will do
  CHECK(mapping_of(settings).table == settings.table);
  for (const char* name : {"", "line\nbreak", "sqlite_schema", "Outbox_Relay_Rows"}) {
    CAPTURE(name);
    settings.table = name;
    CHECK_THROWS_AS(mapping_of(settings), SettingsError);
  }
  settings.table = std::string(129, 'x');
  CHECK_THROWS_AS(mapping_of(settings), SettingsError);
  settings.table = "fine";
  settings.preset = "unheard-of";
  CHECK_THROWS_AS(mapping_of(settings), SettingsError);
}

TEST_CASE("identifiers and literals are quoted, quotes doubled") {
  CHECK(quoted("plain") == "\"plain\"");
  CHECK(quoted("od\"d") == "\"od\"\"d\"");
  CHECK(literal("it's") == "'it''s'");
}

}  // namespace
}  // namespace outbox::sqlite
