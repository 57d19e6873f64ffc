#include "storage/mapping/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "storage/mapping/presets.h"

namespace outbox {
namespace {

constexpr std::size_t kNameLengthMax = 128;

std::string doubled(const std::string& text, char quote) {
  std::string result(1, quote);
  for (const char letter : text) {
    if (letter == quote) result += quote;
    result += letter;
  }
  return result + quote;
}

// Any name will do, quoted, but for characters that no log line or shell survives.
void check_name(const std::string& setting, const std::string& name) {
  if (name.size() > kNameLengthMax) {
    throw SettingsError(
        fmt::format("{} is longer than {} characters: '{}'", setting, kNameLengthMax, name));
  }
  const bool printable = std::all_of(name.begin(), name.end(), [](char letter) {
    return static_cast<unsigned char>(letter) >= ' ' && letter != 0x7f;
  });
  if (!printable) {
    throw SettingsError(fmt::format("{}: '{}' has control characters", setting, name));
  }
}

void check_table_name(const std::string& name, const Dialect& dialect) {
  if (name.empty()) throw SettingsError("store.table is empty: name the outbox table");
  check_name("store.table", name);
  if (lower(name).starts_with(dialect.system_prefix) || lower(name).starts_with("outbox_relay_")) {
    throw SettingsError(fmt::format("store.table: the name '{}' is reserved", name));
  }
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

Mapping preset_named(const std::string& name, const Dialect& dialect) {
  for (const Mapping& preset : presets(dialect)) {
    if (preset.preset == name) return preset;
  }
  throw SettingsError(fmt::format("store.preset: {} has no preset '{}'; it has: {}", dialect.name,
                                  name, listed(preset_names())));
}

// Where the setting `key` of store.columns goes.
std::string Columns::*column_named(const std::string& key) {
  // The relay's own preset has them all.
  const Mapping all = preset_named("relay", {});
  std::vector<std::string> keys;
  for (const ColumnChoice& choice : all.choices) {
    if (choice.key == key) return choice.column;
    keys.push_back(choice.key);
  }
  throw SettingsError(
      fmt::format("store.columns: there is no '{}'; there are: {}", key, listed(keys)));
}

void override_column(Mapping& mapping, const std::string& key, const std::string& name) {
  check_name("store.columns." + key, name);
  const ColumnChoice given{column_named(key), key, {name}, true};
  std::erase_if(mapping.choices, [&](const ColumnChoice& choice) { return choice.key == key; });
  if (!name.empty()) mapping.choices.push_back(given);
  // A column that was named is read as it is.
  if (key == "payload") mapping.payload_sql = "{}";
  if (key == "headers") mapping.headers_sql = "{}";
}

void override_state(Mapping& mapping, const std::string& key, const std::string& value) {
  const std::array<std::pair<const char*, std::string States::*>, 4> states{
      {{"pending", &States::pending},
       {"failed", &States::failed},
       {"processed", &States::processed},
       {"deadLettered", &States::dead_lettered}}};
  check_name("store.states." + key, value);
  for (const auto& [name, state] : states) {
    if (key != name) continue;
    mapping.states.*state = value;
    return;
  }
  throw SettingsError(fmt::format(
      "store.states: there is no '{}'; there are: pending, failed, processed, deadLettered", key));
}

TimeFormat time_format(const std::string& name) {
  constexpr std::array<std::pair<const char*, TimeFormat>, 5> formats{
      {{"iso", TimeFormat::iso},
       {"sql", TimeFormat::sql},
       {"seconds", TimeFormat::seconds},
       {"milliseconds", TimeFormat::milliseconds},
       {"ticks", TimeFormat::ticks}}};
  for (const auto& [known, format] : formats) {
    if (name == known) return format;
  }
  throw SettingsError(
      fmt::format("store.times: '{}' is none of iso, sql, seconds, milliseconds, ticks", name));
}

GuidOrder guid_order(const std::string& name) {
  if (name == "dotnet") return GuidOrder::dotnet;
  if (name == "plain") return GuidOrder::plain;
  throw SettingsError(fmt::format("store.guids: '{}' is none of dotnet, plain", name));
}

void check_states(const Mapping& mapping) {
  const States& s = mapping.states;
  std::vector<std::string> values;
  for (const std::string& value : {s.pending, s.failed, s.processed, s.dead_lettered}) {
    if (value.empty()) continue;
    if (std::find(values.begin(), values.end(), value) != values.end()) {
      throw SettingsError(fmt::format("store.states: two states are both '{}'", value));
    }
    values.push_back(value);
  }
  if (s.pending.empty() || s.processed.empty()) {
    throw SettingsError("store.states: pending and processed are needed");
  }
}

void check_essentials(const Mapping& mapping) {
  for (const auto& [column, key] :
       {std::pair(&Columns::id, "id"), std::pair(&Columns::event_type, "eventType"),
        std::pair(&Columns::payload, "payload")}) {
    if (!(mapping.columns.*column).empty()) continue;
    throw SettingsError(fmt::format("store.columns.{}: a message can't do without", key));
  }
}

// Whether a column of that declared type is for numbers. To SQLite many a name of another kind
// (STRING, ENUM) is one, too, but there a text stays a text. PostgreSQL's names are among these.
bool is_numeric(const std::string& type) {
  const std::string name = lower(type);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("int")) return true;
  if (has("char") || has("clob") || has("text") || has("blob")) return false;
  return has("real") || has("floa") || has("doub") || has("numeric") || has("number") ||
         has("dec") || has("bool");
}

bool is_number(const std::string& text) {
  const std::size_t start = text.starts_with('-') ? 1 : 0;
  return text.size() > start && text.size() < start + 19 &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                     [](char letter) { return letter >= '0' && letter <= '9'; });
}

void resolve_columns(Mapping& mapping, const std::vector<TableColumn>& columns) {
  std::vector<std::string> missing;
  mapping.columns = {};
  for (const ColumnChoice& choice : mapping.choices) {
    const TableColumn* found = nullptr;
    for (const std::string& name : choice.names) {
      if (found == nullptr) found = find_column(columns, name);
    }
    if (found != nullptr) {
      mapping.columns.*choice.column = found->name;
    } else if (choice.required) {
      missing.push_back(fmt::format("{}", fmt::join(choice.names, " or ")));
    }
  }
  if (missing.empty()) return;
  throw Unusable(fmt::format(
      "the table {} has no column {}: {}", mapping.table, listed(missing),
      mapping.foreign
          ? "name its columns in store.columns, or choose another store.preset "
            "(outbox-relay mapping detect proposes one)"
          : "if it was not made for this relay, choose its store.preset (outbox-relay mapping "
            "detect proposes one); or add what is missing (outbox-relay init prints "
            "the whole table)"));
}

// What the relay writes must be writable.
void check_computed(const Mapping& mapping, const std::vector<TableColumn>& columns) {
  for (const ColumnChoice& choice : mapping.choices) {
    const auto member = choice.column;
    const bool written = member == &Columns::status || member == &Columns::retry_count ||
                         member == &Columns::next_attempt || member == &Columns::last_error ||
                         member == &Columns::processed_on || member == &Columns::dead_letter_reason;
    const TableColumn* found = written ? find_column(columns, mapping.columns.*member) : nullptr;
    if (found == nullptr || !found->computed) continue;
    throw Unusable(
        fmt::format("the column {} of the table {} is a generated one, which nobody can write: say "
                    "store.columns.{}: \"\" so that the relay does without",
                    found->name, mapping.table, choice.key));
  }
}

void resolve_states(Mapping& mapping, const std::vector<TableColumn>& columns) {
  if (!mapping.holds_processed() && !mapping.stateless) {
    throw Unusable(
        fmt::format("the table {} has no column that tells processed rows from others: name it in "
                    "store.columns, as status or processedAt",
                    mapping.table));
  }
  if (mapping.columns.status.empty()) {
    mapping.states = {};
    return;
  }
  mapping.numeric_status = is_numeric(find_column(columns, mapping.columns.status)->type);
  const States& s = mapping.states;
  for (const std::string& state : {s.pending, s.failed, s.processed, s.dead_lettered}) {
    if (state.empty() || !mapping.numeric_status || is_number(state)) continue;
    throw Unusable(fmt::format(
        "the column {} of the table {} holds numbers, so that no row is ever '{}': say in "
        "store.states which number stands for which state",
        mapping.columns.status, mapping.table, state));
  }
}

}  // namespace

bool Mapping::holds_processed() const {
  return !columns.status.empty() || !columns.processed_on.empty();
}

// Due times are compared as texts of our own form.
bool Mapping::holds_failed() const {
  return !columns.status.empty() && !states.failed.empty() && !columns.retry_count.empty() &&
         !columns.next_attempt.empty() && times == TimeFormat::iso;
}

bool Mapping::holds_dead() const {
  return !columns.status.empty() && !states.dead_lettered.empty() &&
         !columns.dead_letter_reason.empty();
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Mapping& preset : presets({})) names.push_back(preset.preset);
  return names;
}

Mapping mapping_of(const StoreSettings& settings, const Dialect& dialect) {
  Mapping mapping = preset_named(settings.preset, dialect);
  check_table_name(settings.table, dialect);
  mapping.table = settings.table;
  mapping.foreign = settings.foreign();
  for (const auto& [key, name] : settings.columns) override_column(mapping, key, name);
  for (const auto& [key, value] : settings.states) override_state(mapping, key, value);
  if (!settings.times.empty()) mapping.times = time_format(settings.times);
  if (!settings.guids.empty()) mapping.guids = guid_order(settings.guids);
  for (const ColumnChoice& choice : mapping.choices) {
    mapping.columns.*choice.column = choice.names.front();
  }
  check_essentials(mapping);
  if (!mapping.columns.status.empty()) check_states(mapping);
  mapping.order = mapping.row_key();
  return mapping;
}

Mapping resolve(Mapping mapping, const std::vector<TableColumn>& columns) {
  resolve_columns(mapping, columns);
  resolve_states(mapping, columns);
  check_computed(mapping, columns);
  return mapping;
}

const TableColumn* find_column(const std::vector<TableColumn>& columns, const std::string& name) {
  for (const TableColumn& column : columns) {
    if (lower(column.name) == lower(name)) return &column;
  }
  return nullptr;
}

std::string lower(std::string_view name) {
  std::string result(name);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

std::string quoted(const std::string& name) { return doubled(name, '"'); }

std::string literal(const std::string& text) { return doubled(text, '\''); }

IndexNames index_names(const Mapping& mapping) {
  return {.pending = mapping.table + "_pending",
          .failed = mapping.table + "_failed",
          .dead = mapping.table + "_dead",
          .open_key = mapping.table + "_open_key",
          .dead_key = mapping.table + "_dead_key"};
}

}  // namespace outbox
