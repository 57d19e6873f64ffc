#include "storage/postgres/registration.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <random>
#include <utility>

namespace outbox::postgres {
namespace {

constexpr std::uint32_t kCrashesMax = 5;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// A commit that the server would only promise is waited for all the same (promise P2).
std::string look_sql(const Sql& sql, const std::string& now) {
  return fmt::format(
      "SELECT {0}, pg_catalog.pg_is_in_recovery(), "
      "coalesce(pg_catalog.to_regclass($2)::oid::int8, 0), "
      "(SELECT bool_or(isolated) FROM {1} WHERE outbox = $1), "
      "(SELECT bool_or(paused) FROM {1} WHERE outbox = $1), "
      "(SELECT max(reason) FROM {1} WHERE outbox = $1 AND isolated), "
      "(SELECT count(*) FROM {2} WHERE outbox = $1 AND incarnation <> $3), "
      "EXISTS (SELECT 1 FROM {1} WHERE outbox = $1 AND broker = $4 AND state = 'open'), "
      "CASE WHEN current_setting('synchronous_commit') = 'off' "
      "THEN set_config('synchronous_commit', 'on', true) END",
      now, sql.brokers(), sql.incarnations());
}

// At time $3. A statement of its own: as a part of the look that is left out most of the time, it
// would have the server plan all of that anew for each turn.
std::string ended_sql(const Sql& sql) {
  return fmt::format(
      "SELECT incarnation FROM {} AS i WHERE outbox = $1 AND incarnation <> $2 "
      "AND lease_until < $3 AND (lease_until < $3 - interval '1 day' "
      "OR EXISTS (SELECT 1 FROM {} AS l WHERE l.outbox = $1 AND l.incarnation = i.incarnation))",
      sql.incarnations(), sql.leases());
}

// Of rows $3 of relay $2: what was noted of another event is overwritten.
std::string note_sql(const Sql& sql) {
  return fmt::format(
      "INSERT INTO {0} AS r (outbox, row_key, outcome_unknown, takeovers, crashes, taken_from, "
      "fingerprint) SELECT $1, x.key, true, 1, x.alone, $2, {1} FROM unnest($3, $4) AS x(key, "
      "alone) "
      "JOIN {2} ON {3} = {4} ORDER BY x.key ON CONFLICT (outbox, row_key) DO UPDATE SET "
      "outcome_unknown = true, taken_from = excluded.taken_from, takeovers = CASE WHEN "
      "coalesce(r.fingerprint, 0) IN (0, excluded.fingerprint) THEN r.takeovers ELSE 0 END + 1, "
      "crashes = CASE WHEN coalesce(r.fingerprint, 0) IN (0, excluded.fingerprint) "
      "THEN r.crashes ELSE 0 END + excluded.crashes, fingerprint = excluded.fingerprint "
      "RETURNING r.row_key, r.crashes",
      sql.rows(), sql.fingerprint(), sql.from(), sql.row_key(), sql.as_key("x.key"));
}

}  // namespace

std::int64_t new_incarnation() {
  std::random_device device;
  const std::uint64_t high = device();
  return static_cast<std::int64_t>((high << 31 ^ device()) & 0x3fffffffffffffffULL) + 1;
}

Registration::Registration(Connection& connection, const Sql& sql, const std::string& now,
                           const std::string& broker)
    : outbox_(sql.outbox()),
      table_(sql.table().qualified()),
      broker_(broker),
      look_(connection, look_sql(sql, now)),
      ended_(connection, ended_sql(sql)),
      lock_(connection,
            fmt::format("SELECT m.turn, m.epoch, pg_catalog.nextval('{}') FROM (SELECT turn, epoch "
                        "FROM {} WHERE outbox = $1 AND incarnation = $2 FOR UPDATE) AS m",
                        sql.epochs(), sql.incarnations())),
      write_(connection,
             fmt::format("INSERT INTO {} (outbox, incarnation, lease_until, turn, epoch, "
                         "instance_name, instance_pid, started_at) VALUES ($1, $2, $3, 0, 0, $4, "
                         "$5, $6) ON CONFLICT DO NOTHING",
                         sql.incarnations())),
      adopt_(connection,
             fmt::format("INSERT INTO {0} (outbox, incarnation, lease_until, turn, epoch, "
                         "started_at) SELECT DISTINCT $1, l.incarnation, $2, 0, 0, $3 FROM {1} AS "
                         "l WHERE l.outbox = $1 AND NOT EXISTS (SELECT 1 FROM {0} AS i WHERE "
                         "i.outbox = $1 AND i.incarnation = l.incarnation) ON CONFLICT DO NOTHING",
                         sql.incarnations(), sql.leases())),
      sign_(connection,
            fmt::format("UPDATE {} SET turn = $3, epoch = coalesce($4, pg_catalog.currval('{}')), "
                        "lease_until = coalesce($5, lease_until) "
                        "WHERE outbox = $1 AND incarnation = $2 RETURNING epoch",
                        sql.incarnations(), sql.epochs())),
      doubt_(connection,
             fmt::format("INSERT INTO {} AS r (outbox, row_key, outcome_unknown, fingerprint) "
                         "SELECT l.outbox, l.row_key, true, {} FROM {} AS l JOIN {} ON {} = {} "
                         "WHERE l.outbox = $1 AND l.incarnation = $2 ORDER BY l.row_key "
                         "ON CONFLICT (outbox, row_key) DO UPDATE SET outcome_unknown = true",
                         sql.rows(), sql.fingerprint(), sql.leases(), sql.from(), sql.row_key(),
                         sql.as_key("l.row_key"))),
      end_leases_(connection, fmt::format("DELETE FROM {} WHERE outbox = $1 AND incarnation = $2",
                                          sql.leases())),
      erase_(connection, fmt::format("DELETE FROM {} WHERE outbox = $1 AND incarnation = $2",
                                     sql.incarnations())),
      lock_ended_(connection, fmt::format("SELECT 1 FROM {} WHERE outbox = $1 AND incarnation = $2 "
                                          "AND lease_until < $3 FOR UPDATE SKIP LOCKED",
                                          sql.incarnations())),
      leases_of_(connection,
                 fmt::format("SELECT row_key, alone FROM {} WHERE outbox = $1 AND incarnation = $2 "
                             "ORDER BY row_key LIMIT $3",
                             sql.leases())),
      note_(connection, note_sql(sql)),
      end_these_(connection, fmt::format("DELETE FROM {} WHERE outbox = $1 AND incarnation = $2 "
                                         "AND row_key = ANY($3)",
                                         sql.leases())),
      take_back_(connection, fmt::format("UPDATE {} SET takeovers = greatest(takeovers - 1, 0), "
                                         "crashes = greatest(crashes - 1, 0), taken_from = NULL "
                                         "WHERE outbox = $1 AND taken_from = $2",
                                         sql.rows())) {}

Scenery Registration::look(const Identity& identity, bool at_others) {
  Scenery scenery = read(look_.rows(outbox_, table_, identity.incarnation, broker_));
  if (at_others) look_at_others(identity, scenery);
  return scenery;
}

Registration::Looking Registration::send_look_and_lock(const Identity& identity) {
  Ahead look = look_.send(outbox_, table_, identity.incarnation, broker_);
  return {std::move(look), lock_.send(outbox_, identity.incarnation)};
}

Scenery Registration::take(Looking looking, const Identity& identity, bool at_others,
                           std::optional<Mark>& mark) {
  Scenery scenery = read(looking.look.rows());
  mark = read_mark(looking.lock.rows());
  if (at_others) look_at_others(identity, scenery);
  return scenery;
}

Scenery Registration::read(Rows rows) {
  rows.next();
  Scenery scenery;
  scenery.now = rows.time(0);
  scenery.replica = rows.boolean(1);
  scenery.table = rows.integer(2);
  scenery.circuit_held = rows.boolean(3);
  scenery.paused = rows.boolean(4);
  scenery.why_held = rows.text(5);
  scenery.alone = rows.integer(6) == 0;
  scenery.circuit_open = rows.boolean(7);
  return scenery;
}

void Registration::look_at_others(const Identity& identity, Scenery& scenery) {
  Rows ended = ended_.rows(outbox_, identity.incarnation, scenery.now);
  while (ended.next()) scenery.ended.push_back(ended.integer(0));
}

std::optional<Registration::Mark> Registration::lock(const Identity& identity) {
  return read_mark(lock_.rows(outbox_, identity.incarnation));
}

std::optional<Registration::Mark> Registration::read_mark(Rows rows) {
  if (!rows.next()) return std::nullopt;
  return Mark{static_cast<std::uint64_t>(rows.integer(0)), static_cast<LeaseId>(rows.integer(1)),
              static_cast<LeaseId>(rows.integer(2))};
}

void Registration::write(const Identity& identity, ServerTime lease_until, ServerTime now) {
  write_.run(outbox_, identity.incarnation, lease_until, host_name(), ::getpid(), now);
  adopt_.run(outbox_, lease_until, now);
}

// With the commit, which fails if this does.
Ahead Registration::sign(const Identity& identity, std::uint64_t turn, std::optional<LeaseId> epoch,
                         std::optional<ServerTime> lease_until) {
  return sign_.send(outbox_, identity.incarnation, turn, epoch, lease_until);
}

LeaseId Registration::signed_epoch(Ahead signing) {
  Rows rows = signing.rows();
  return rows.next() ? static_cast<LeaseId>(rows.integer(0)) : 0;
}

void Registration::end(const Identity& identity) {
  doubt_.run(outbox_, identity.incarnation);
  end_leases_.run(outbox_, identity.incarnation);
  erase_.run(outbox_, identity.incarnation);
}

TakeOver Registration::take_over(std::int64_t ended, const Holder& holder, std::size_t limit,
                                 Settler& settler) {
  TakeOver result;
  // It may be at work on its last turn, or another relay on this.
  if (!lock_ended_.rows(outbox_, ended, holder.now).next()) return result;
  std::vector<std::string> keys;
  std::vector<std::int64_t> alone;
  Rows rows = leases_of_.rows(outbox_, ended, static_cast<std::int64_t>(limit));
  while (rows.next()) {
    keys.push_back(rows.text(0));
    alone.push_back(rows.integer(1));
  }
  std::vector<Killer> killers;
  if (!keys.empty()) {
    std::map<std::string, bool> was_alone;
    for (std::size_t i = 0; i < keys.size(); ++i) was_alone[keys[i]] = alone[i] != 0;
    Rows noted = note_.rows(outbox_, ended, keys, alone);
    while (noted.next()) {
      const auto crashes = static_cast<std::uint32_t>(noted.integer(1));
      const std::string key = noted.text(0);
      if (was_alone[key] && crashes >= kCrashesMax) killers.push_back({key, crashes});
    }
    end_these_.run(outbox_, ended, keys);
  }
  result.buried = settler.bury(killers, holder);
  result.leases = keys.size();
  if (keys.size() < limit) erase_.run(outbox_, ended);
  return result;
}

void Registration::take_back(std::int64_t earlier) { take_back_.run(outbox_, earlier); }

}  // namespace outbox::postgres
