#include "storage/sqlite/row_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "storage/mapping/row_handle.h"

namespace outbox::sqlite {
namespace {

// No other column may hold more than this, so that a row takes a bounded amount of memory.
constexpr std::uint64_t kValueBytesMax = 1u << 20;

// Rows found by few others between them are read in one pass.
constexpr std::size_t kSparseness = 2;

std::string one_sql(const Sql& sql) {
  return message_sql(sql, "?2", fmt::format("{} = ?1", sql.row_key()));
}

std::string run_sql(const Sql& sql) {
  return message_sql(sql, {}, fmt::format("{0} BETWEEN ?1 AND ?2 ORDER BY {0}", sql.order()));
}

std::uint64_t value_bytes(std::uint64_t payload_max) {
  return std::max(payload_max, kValueBytesMax);
}

// Whether these rows lie close together in the table, and all of them may be loaded.
bool is_run(std::span<const Picked> rows, std::uint64_t payload_max) {
  const auto ascending = [](const Picked& one, const Picked& other) {
    return one.place < other.place;
  };
  const auto loads = [=](const Picked& picked) { return picked.payload_size <= payload_max; };
  if (!std::is_sorted(rows.begin(), rows.end(), ascending)) return false;
  if (!std::all_of(rows.begin(), rows.end(), loads)) return false;
  const auto width = static_cast<std::uint64_t>(rows.back().place) -
                     static_cast<std::uint64_t>(rows.front().place);
  return width < kSparseness * rows.size();
}

}  // namespace

RowReader::RowReader(Connection& connection, const Sql& sql, std::string outbox,
                     SideRows& side_rows, const Clocks& clocks)
    : connection_(connection),
      outbox_(std::move(outbox)),
      side_rows_(side_rows),
      columns_(connection, sql.mapping(), clocks),
      sizes_(connection, sql.mapping().table, sql.mapping().columns.payload),
      one_(connection.database(), one_sql(sql)),
      run_(connection.database(), run_sql(sql)),
      leased_(connection.database(),
              fmt::format("SELECT held.row_key, {0}, held.alone, held.noted "
                          "FROM outbox_relay_leases AS held LEFT JOIN {1} AS o "
                          "ON {2} = held.row_key WHERE held.outbox = ?1 "
                          "AND held.incarnation = ?2 AND held.epoch = ?3",
                          sql.order(), sql.table(), sql.row_key())),
      fingerprint_(connection.database(),
                   fmt::format("SELECT {} FROM {} AS o WHERE {} = ?1", sql.fingerprint(),
                               sql.table(), sql.row_key())) {}

Loaded RowReader::load(const std::vector<Picked>& rows, LeaseId lease, std::uint64_t payload_max) {
  Loaded loaded;
  if (rows.empty()) return loaded;
  const ValueLimit limit(connection_, value_bytes(payload_max));
  Transaction snapshot(connection_, Transaction::Kind::read);
  loaded.messages.reserve(rows.size());
  if (!is_run(rows, payload_max) || !load_run(rows, lease, loaded)) {
    loaded = {};
    load_each(rows, lease, payload_max, loaded);
  }
  snapshot.commit();
  return loaded;
}

// False if a value is too large to be read: which one, only reading row by row tells. Or if the
// rows have other places now, as after a VACUUM.
bool RowReader::load_run(std::span<const Picked> rows, LeaseId lease, Loaded& loaded) {
  auto found = run_.rows(rows.front().place, rows.back().place);
  auto next = rows.begin();
  const auto skip_to = [&](std::int64_t place) {
    for (; next != rows.end() && next->place < place; ++next) loaded.vanished.push_back(next->key);
    return next != rows.end() && next->place == place;
  };
  try {
    while (next != rows.end() && found.next()) {
      if (!skip_to(found.integer(kPlaceColumn))) continue;
      if (found.value(kKeyColumn) != next->key) return false;
      loaded.messages.push_back(complete(named(found, *next, true), *next, lease));
      ++next;
    }
  } catch (const SQLite::Exception& error) {
    if (is_too_big(error)) return false;
    throw;
  }
  skip_to(INT64_MAX);
  return true;
}

void RowReader::load_each(std::span<const Picked> rows, LeaseId lease, std::uint64_t payload_max,
                          Loaded& loaded) {
  for (const Picked& picked : rows) {
    if (auto message = read(picked, payload_max)) {
      loaded.messages.push_back(complete(std::move(*message), picked, lease));
    } else {
      loaded.vanished.push_back(picked.key);
    }
  }
}

std::vector<Picked> RowReader::leased_under(std::int64_t incarnation, LeaseId epoch) {
  std::vector<Picked> result;
  auto rows = leased_.rows(outbox_, incarnation, static_cast<std::int64_t>(epoch));
  while (rows.next()) {
    Picked picked;
    picked.key = rows.value(0).value_or(Value{});
    picked.place = rows.integer(1);
    picked.payload_size = sizes_.bytes(picked.place);
    picked.alone = rows.integer(2) != 0;
    picked.noted = rows.integer(3) != 0;
    result.push_back(picked);
  }
  sizes_.close();
  std::sort(result.begin(), result.end(),
            [](const Picked& one, const Picked& other) { return one.place < other.place; });
  return result;
}

std::optional<Message> RowReader::read(const Picked& picked, std::uint64_t payload_max) {
  const bool loads = picked.payload_size <= payload_max;
  try {
    auto rows = one_.rows(picked.key, loads ? 1 : 0);
    if (!rows.next()) return std::nullopt;
    return named(rows, picked, loads);
  } catch (const SQLite::Exception& error) {
    if (!is_too_big(error)) throw;
    return unreadable(picked, value_bytes(payload_max));
  }
}

// A row of which some column is too large to be read. Its id may be that column: it is looked at
// all the same, since by the fingerprint no other event is taken for this one.
std::optional<Message> RowReader::unreadable(const Picked& picked, std::uint64_t limit) {
  const ValueLimit none(connection_, INT_MAX);
  auto rows = fingerprint_.rows(picked.key);
  if (!rows.next()) return std::nullopt;
  Message message;
  message.row = to_row_id(picked.key, picked.place, static_cast<std::uint32_t>(rows.integer(0)));
  message.defect = fmt::format("a column holds more than {} bytes", limit);
  message.payload_size = picked.payload_size;
  return message;
}

Message RowReader::named(const Query::Rows& rows, const Picked& picked, bool loads) {
  Message message = columns_.read(rows, picked.payload_size, loads);
  message.row = to_row_id(picked.key, picked.place, fingerprint_of_id(rows.bytes(kIdColumn)));
  return message;
}

Message RowReader::complete(Message message, const Picked& picked, LeaseId lease) {
  message.lease = lease;
  message.alone = picked.alone;
  read_history(picked, message);
  return message;
}

void RowReader::read_history(const Picked& picked, Message& message) {
  if (!picked.noted) return;
  const auto side = side_rows_.read(picked.key, parse_row_id(message.row)->fingerprint);
  if (!side) return;
  message.generation = side->generation;
  RowHistory& history = message.history;
  if (side->state) {
    history.retry_count = static_cast<std::uint32_t>(side->retry_count.value_or(0));
  }
  history.counted = side->counted;
  history.misconfigured_tries = side->misconfigured_tries;
  history.last_failure = side->last_failure;
  history.last_delay = side->last_delay;
  history.outcome_unknown = side->outcome_unknown;
  if (side->last_attempt) history.since_last_attempt = side_rows_.since(*side->last_attempt);
  if (side->misconfigured_since) {
    history.misconfigured_for = side_rows_.since(*side->misconfigured_since);
  }
}

}  // namespace outbox::sqlite
