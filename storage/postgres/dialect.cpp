#include "storage/postgres/dialect.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace outbox::postgres {

// CAP's column is taken apart by RowReader: PostgreSQL 15 can't tell whether a text is JSON without
// failing on one that is not.
const Dialect& dialect() {
  static const Dialect postgres{.name = "PostgreSQL",
                                .system_prefix = "pg_",
                                .cap_payload_sql = "{}",
                                .cap_headers_sql = "{}"};
  return postgres;
}

Mapping mapping_of(const StoreSettings& settings) {
  StoreSettings bare = settings;
  bare.table = table_name(settings.table).table;
  return outbox::mapping_of(bare, dialect());
}

TableName table_name(const std::string& text) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"';
    if (doubled) {
      parts.back() += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == '.' && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  if (parts.size() > 2 || quoted || (parts.size() == 2 && parts[0].empty())) {
    throw SettingsError(fmt::format("store.table: '{}' is neither table nor schema.table", text));
  }
  if (parts.size() == 1) return {"", parts[0]};
  return {parts[0], parts[1]};
}

}  // namespace outbox::postgres
