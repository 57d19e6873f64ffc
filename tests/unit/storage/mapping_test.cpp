// Which columns and states a table is taken to have.
#include "storage/mapping/mapping.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "storage/mapping/presets.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/dialect.h"
#include "storage/sqlite/identifiers.h"

namespace outbox::sqlite {
namespace {

std::vector<TableColumn> table(const std::vector<std::string>& names) {
  std::vector<TableColumn> columns;
  for (const std::string& name : names) columns.push_back({name, "TEXT", false});
  return columns;
}

StoreSettings settings_for(const std::string& preset) {
  StoreSettings settings;
  settings.table = "o";
  settings.preset = preset;
  return settings;
}

// What resolving says is wrong; empty if nothing.
std::string complaint(const StoreSettings& settings, const std::vector<TableColumn>& columns) {
  try {
    resolved(mapping_of(settings), columns);
    return {};
  } catch (const Unusable& error) {
    return error.what();
  } catch (const SettingsError& error) {
    return error.what();
  }
}

TEST_CASE("a preset takes the first of its names that the table has, spelt as there") {
  const Mapping mapping =
      resolved(mapping_of(settings_for("dotnet")),
               table({"ID", "eventtype", "PAYLOAD", "Content", "ProcessedOn", "occurredOn"}));
  CHECK(mapping.columns.id == "ID");
  CHECK(mapping.columns.event_type == "eventtype");
  CHECK(mapping.columns.payload == "Content");
  CHECK(mapping.columns.processed_on == "ProcessedOn");
  CHECK(mapping.columns.occurred_on == "occurredOn");
  CHECK(mapping.columns.status.empty());
  CHECK(mapping.columns.retry_count.empty());
  CHECK(mapping.row_key() == "ID");
  CHECK(mapping.order == "rowid");
  CHECK(mapping.holds_processed());
  CHECK_FALSE(mapping.holds_failed());
  CHECK_FALSE(mapping.holds_dead());
}

TEST_CASE("the relay's own table holds every verdict, any other only what it has columns for") {
  StoreSettings settings = settings_for("relay");
  std::vector<TableColumn> columns;
  const Mapping preset = presets(dialect()).front();
  for (const ColumnChoice& choice : preset.choices) {
    columns.push_back({choice.names.front(), "TEXT", false});
  }
  columns.front() = {"sequence", "INTEGER", true};
  const Mapping own = resolved(mapping_of(settings), columns);
  CHECK(own.holds_processed());
  CHECK(own.holds_failed());
  CHECK(own.holds_dead());
  CHECK(own.key_is_order());
  settings.columns = {{"nextAttempt", ""}, {"deadLetterReason", ""}};
  const Mapping less = resolved(mapping_of(settings), columns);
  CHECK(less.holds_processed());
  CHECK_FALSE(less.holds_failed());
  CHECK_FALSE(less.holds_dead());
}

TEST_CASE("what is missing or can't be is said, with what to do") {
  const auto full = table({"Id", "Type", "Payload", "Status"});
  CHECK(complaint(settings_for("dotnet"), full).empty());
  CHECK(complaint(settings_for("dotnet"), table({"Id", "Payload", "Status"})).find("Type or") !=
        std::string::npos);
  CHECK(complaint(settings_for("dotnet"), table({"Id", "Type", "Payload"})).find("processed") !=
        std::string::npos);
  StoreSettings settings = settings_for("dotnet");
  settings.columns = {{"payload", "Missing"}};
  CHECK(complaint(settings, full).find("Missing") != std::string::npos);
  settings.columns = {{"payload", ""}};
  CHECK(complaint(settings, full).find("can't do without") != std::string::npos);
  settings.columns = {{"paylaod", "Payload"}};
  CHECK(complaint(settings, full).find("there is no 'paylaod'") != std::string::npos);
  settings.columns = {};
  settings.states = {{"done", "x"}};
  CHECK(complaint(settings, full).find("there is no 'done'") != std::string::npos);
  settings.states = {{"pending", "Failed"}};
  CHECK(complaint(settings, full).find("two states are both 'Failed'") != std::string::npos);
  settings.states = {};
  settings.times = "fortnights";
  CHECK(complaint(settings, full).find("fortnights") != std::string::npos);
  settings.times = "";
  auto numeric = full;
  numeric.back().type = "INTEGER";
  CHECK(complaint(settings, numeric).find("store.states") != std::string::npos);
  for (const char* type : {"STRING", "ENUM", "VARCHAR(20)"}) {
    numeric.back().type = type;
    CHECK(complaint(settings, numeric).empty());
  }
  for (const char* type : {"TINYINT", "NUMERIC(1)", "bool"}) {
    numeric.back().type = type;
    CHECK(complaint(settings, numeric).find("store.states") != std::string::npos);
  }
  settings.states = {{"pending", "0"}, {"failed", "1"}, {"processed", "2"}};
  CHECK(complaint(settings, numeric).empty());
  CHECK(complaint(settings_for("dotnet"),
                  table({"Id", "Type", "Payload", "Status", "rowid", "_ROWID_", "oid"}))
            .find("rowid") != std::string::npos);
}

TEST_CASE("a table's columns may hide the rowid's names") {
  const Mapping mapping = resolved(mapping_of(settings_for("dotnet")),
                                   table({"Id", "Type", "Payload", "Status", "RowID"}));
  CHECK(mapping.order == "_rowid_");
}

TEST_CASE("a GUID's bytes are read as .NET writes them") {
  const std::string bytes("\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16);
  CHECK(guid_text(bytes, GuidOrder::dotnet) == "00112233-4455-6677-8899-aabbccddeeff");
  CHECK_FALSE(guid_text(bytes.substr(1), GuidOrder::dotnet).has_value());
}

// A name that no designer would choose.
std::string odd_name(std::mt19937& random) {
  static const std::vector<std::string> parts{
      "select",   "\"",           "'",   "`",  "]",  "[",    ";",  "--",    "/*",
      " ",        "{}",           "{0}", "%s", "?1", ":a",   "o.", "rowid", "Id",
      "\xc3\xa4", "\xe2\x82\xac", "r",   "l",  "o",  "NULL", "\\", "$",     "@"};
  std::string name;
  const auto length = 1 + random() % 4;
  for (std::size_t i = 0; i < length; ++i) name += parts[random() % parts.size()];
  return name;
}

TEST_CASE("bytes that are no id of any kind are written so that they can be typed") {
  const std::string bytes("\0\xff'", 3);
  CHECK(hex_text(bytes) == "x'00ff27'");
  CHECK(hex_bytes("x'00FF27'") == bytes);
  CHECK(hex_bytes("x''") == "");
  for (const char* text : {"", "x'", "x'0'", "x'0g'", "00ff27", "x'00"}) {
    CAPTURE(text);
    CHECK_FALSE(hex_bytes(text).has_value());
  }
  const std::string guid("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10", 16);
  CHECK(guid_text(guid, GuidOrder::plain) == "01020304-0506-0708-090a-0b0c0d0e0f10");
  for (const GuidOrder order : {GuidOrder::dotnet, GuidOrder::plain}) {
    CHECK(guid_bytes(guid_text(guid, order).value(), order) == guid);
    CHECK_FALSE(guid_bytes("04030201-0605-0807-090a-0b0c0d0e0f", order).has_value());
    CHECK_FALSE(guid_bytes("04030201-0605-0807-090a-0b0c0d0e0fxx", order).has_value());
  }
}

TEST_CASE("whatever the settings are, they are taken or refused with a reason") {
  const std::vector<std::string> keys{"id",          "eventType", "payload",    "status",
                                      "processedAt", "headers",   "occurredAt", "sequence",
                                      "unknown",     "",          "notBefore",  "nextAttempt"};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) names.push_back(odd_name(random));
    const std::vector<std::string> usual{"Id", "Type", "Payload", "Status", "ProcessedOn"};
    names.insert(names.end(), usual.begin(),
                 usual.begin() + static_cast<std::ptrdiff_t>(random() % 6));
    StoreSettings settings = settings_for(preset_names()[random() % preset_names().size()]);
    settings.table = odd_name(random);
    for (std::size_t i = random() % 4; i > 0; --i) {
      settings.columns[keys[random() % keys.size()]] = names[random() % names.size()];
    }
    if (random() % 3 == 0) settings.states["pending"] = odd_name(random);
    if (random() % 5 == 0) settings.times = odd_name(random);
    std::string said;
    CHECK_NOTHROW(said = complaint(settings, table(names)));
    if (!said.empty()) CHECK(said.size() > 20);
  }
}

}  // namespace
}  // namespace outbox::sqlite
