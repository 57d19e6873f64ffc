#include "storage/sqlite/incarnation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace outbox::sqlite {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::int64_t signed_epoch(LeaseId epoch) { return static_cast<std::int64_t>(epoch); }

bool is_large(const Picked& row) { return row.payload_size > kRewriteMax; }

bool is_plain(const Picked& row) { return !row.alone && !row.noted && !is_large(row); }

// A statement for several rows costs half as much a row as one for each.
constexpr std::size_t kPlainLeases = 8;

std::string plain_leases_sql() {
  std::string rows;
  for (std::size_t i = 0; i < kPlainLeases; ++i) {
    rows += fmt::format("{}(?1, ?{}, ?2, ?3, 0, 0, 0)", i == 0 ? "" : ", ", i + 4);
  }
  return "INSERT INTO outbox_relay_leases (outbox, row_key, incarnation, epoch, alone, large, "
         "noted) VALUES " +
         rows;
}

}  // namespace

std::int64_t new_incarnation() {
  std::random_device device;
  const std::uint64_t high = device();
  return static_cast<std::int64_t>((high << 31 ^ device()) & 0x3fffffffffffffffULL) + 1;
}

Registration::Registration(Connection& connection, const Sql& sql, std::string outbox,
                           const Clocks& clocks)
    : outbox_(std::move(outbox)),
      clocks_(clocks),
      read_(connection.database(),
            "SELECT turn, epoch FROM outbox_relay_incarnations "
            "WHERE outbox = ?1 AND incarnation = ?2"),
      write_(
          connection.database(),
          "INSERT OR REPLACE INTO outbox_relay_incarnations (outbox, incarnation, boot_id, "
          "lease_until, turn, epoch, lock_path, lock_dev, lock_inode, instance_name, "
          "instance_pid, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"),
      sign_(connection.database(),
            "UPDATE outbox_relay_incarnations SET turn = ?3, epoch = ?4, lease_until = ?5 "
            "WHERE outbox = ?1 AND incarnation = ?2"),
      sign_only_(connection.database(),
                 "UPDATE outbox_relay_incarnations SET turn = ?3, epoch = ?4 "
                 "WHERE outbox = ?1 AND incarnation = ?2"),
      erase_(connection.database(),
             "DELETE FROM outbox_relay_incarnations WHERE outbox = ?1 AND incarnation = ?2"),
      end_leases_(connection.database(),
                  "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND incarnation = ?2"),
      of_others_(connection.database(),
                 fmt::format("SELECT held.row_key FROM outbox_relay_leases AS held "
                             "JOIN {} AS o ON {} = held.row_key JOIN outbox_relay_rows AS r "
                             "ON r.outbox = ?1 AND r.row_key = held.row_key "
                             "WHERE held.outbox = ?1 AND held.incarnation = ?2 "
                             "AND coalesce(r.fingerprint, 0) NOT IN (0, {})",
                             sql.table(), sql.row_key(), sql.fingerprint())),
      forget_note_(connection.database(),
                   "DELETE FROM outbox_relay_rows WHERE outbox = ?1 AND row_key = ?2"),
      doubt_(connection.database(),
             fmt::format("INSERT INTO outbox_relay_rows (outbox, row_key, outcome_unknown, "
                         "fingerprint) SELECT held.outbox, held.row_key, 1, {} "
                         "FROM outbox_relay_leases AS held JOIN {} AS o ON {} = held.row_key "
                         "WHERE held.outbox = ?1 AND held.incarnation = ?2 "
                         "ON CONFLICT (outbox, row_key) DO UPDATE SET outcome_unknown = 1, "
                         "fingerprint = excluded.fingerprint",
                         sql.fingerprint(), sql.table(), sql.row_key())),
      last_epoch_(connection.database(),
                  "SELECT value FROM outbox_relay_meta WHERE outbox = ?1 AND name = 'epoch'"),
      raise_epoch_(connection.database(),
                   "INSERT INTO outbox_relay_meta (outbox, name, value) "
                   "VALUES (?1, 'epoch', ?2 + 1) ON CONFLICT (outbox, name) "
                   "DO UPDATE SET value = max(value, ?2) + 1 RETURNING value"),
      lease_(connection.database(),
             "INSERT INTO outbox_relay_leases (outbox, row_key, incarnation, epoch, alone, large, "
             "noted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      lease_plain_(connection.database(), plain_leases_sql()),
      forget_(connection.database(),
              "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key = ?2") {}

std::optional<Registration::Mark> Registration::read(const Identity& identity) {
  auto rows = read_.rows(outbox_, identity.incarnation);
  if (!rows.next()) return std::nullopt;
  return Mark{static_cast<std::uint64_t>(rows.integer(0)), static_cast<LeaseId>(rows.integer(1))};
}

void Registration::write(const Identity& identity, const Mark& mark, Time lease_until) {
  std::optional<std::string> lock_name;
  std::optional<std::int64_t> device;
  std::optional<std::int64_t> inode;
  if (identity.lock && identity.lock->held()) {
    lock_name = identity.lock->name();
    device = static_cast<std::int64_t>(identity.lock->identity().device);
    inode = static_cast<std::int64_t>(identity.lock->identity().inode);
  }
  write_.run(outbox_, identity.incarnation, clocks_.boot_id, lease_until.time_since_epoch().count(),
             mark.turn, signed_epoch(mark.epoch), lock_name, device, inode, host_name(), ::getpid(),
             to_text(clocks_.wall()));
}

bool Registration::sign(const Identity& identity, const Mark& mark,
                        std::optional<Time> lease_until) {
  const std::int64_t epoch = signed_epoch(mark.epoch);
  if (!lease_until) {
    return sign_only_.run(outbox_, identity.incarnation, mark.turn, epoch) > 0;
  }
  return sign_.run(outbox_, identity.incarnation, mark.turn, epoch,
                   lease_until->time_since_epoch().count()) > 0;
}

void Registration::erase(const Identity& identity) { erase_.run(outbox_, identity.incarnation); }

void Registration::end_leases(std::int64_t incarnation) {
  forget_notes_of_others(incarnation);
  doubt_.run(outbox_, incarnation);
  end_leases_.run(outbox_, incarnation);
}

// What was noted of another event under such a key says nothing of this one.
void Registration::forget_notes_of_others(std::int64_t incarnation) {
  std::vector<Value> keys;
  {
    auto rows = of_others_.rows(outbox_, incarnation);
    while (rows.next()) keys.push_back(rows.value(0).value_or(Value{}));
  }
  for (const Value& key : keys) forget_note_.run(outbox_, key);
}

LeaseId Registration::last_epoch() {
  auto rows = last_epoch_.rows(outbox_);
  return rows.next() ? static_cast<LeaseId>(rows.integer(0)) : 0;
}

LeaseId Registration::next_epoch(LeaseId seen) {
  auto rows = raise_epoch_.rows(outbox_, signed_epoch(seen));
  rows.next();
  const auto epoch = static_cast<LeaseId>(rows.integer(0));
  rows.next();  // else the update would not be complete
  return epoch;
}

void Registration::lease(const Identity& identity, LeaseId epoch, std::span<const Picked> rows) {
  while (!rows.empty()) {
    const auto some = rows.first(std::min(rows.size(), kPlainLeases));
    if (some.size() == kPlainLeases && std::all_of(some.begin(), some.end(), is_plain)) {
      lease_plain_.run(outbox_, identity.incarnation, signed_epoch(epoch), some[0].key, some[1].key,
                       some[2].key, some[3].key, some[4].key, some[5].key, some[6].key,
                       some[7].key);
    } else {
      for (const Picked& picked : some) lease_one(identity, epoch, picked);
    }
    rows = rows.subspan(some.size());
  }
}

void Registration::lease_one(const Identity& identity, LeaseId epoch, const Picked& picked) {
  lease_.run(outbox_, picked.key, identity.incarnation, signed_epoch(epoch), picked.alone ? 1 : 0,
             is_large(picked) ? 1 : 0, picked.noted ? 1 : 0);
}

void Registration::forget(const std::vector<Value>& keys) {
  for (const Value& key : keys) forget_.run(outbox_, key);
}

}  // namespace outbox::sqlite
