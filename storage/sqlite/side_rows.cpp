#include "storage/sqlite/side_rows.h"

#include <algorithm>
#include <array>

namespace outbox::sqlite {
namespace {

constexpr std::int64_t kOtherBoot = INT64_MIN;

constexpr const char* kRead =
    "SELECT state, dead_letter_reason, error, due, retry_count, processed_on, generation, counted, "
    "misconfigured_tries, misconfigured_since, last_failure, last_delay_ms, last_attempt_at, boot, "
    "misconfigured_since_boot, last_attempt_boot, outcome_unknown, takeovers, crashes, "
    "waits_for_recovery_epoch, fingerprint FROM outbox_relay_rows "
    "WHERE outbox = ?1 AND row_key = ?2 AND (?3 = 0 OR coalesce(fingerprint, 0) IN (0, ?3))";

constexpr const char* kWrite =
    "INSERT OR REPLACE INTO outbox_relay_rows (outbox, row_key, state, dead_letter_reason, error, "
    "due, retry_count, processed_on, generation, counted, misconfigured_tries, "
    "misconfigured_since, last_failure, last_delay_ms, last_attempt_at, boot, "
    "misconfigured_since_boot, last_attempt_boot, outcome_unknown, takeovers, crashes, "
    "waits_for_recovery_epoch, fingerprint) "
    "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23)";

FailureKind kind_named(const std::string& name) {
  constexpr std::array kinds{FailureKind::transport,     FailureKind::throttled,
                             FailureKind::misconfigured, FailureKind::refused,
                             FailureKind::conflict,      FailureKind::short_circuited,
                             FailureKind::held};
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](FailureKind kind) { return name == name_of(kind); });
  return found != kinds.end() ? *found : FailureKind::none;
}

std::uint32_t count_of(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

}  // namespace

SideRows::SideRows(Connection& connection, std::string outbox, const Clocks& clocks)
    : outbox_(std::move(outbox)),
      clocks_(clocks),
      boot_number_(clocks.boot_number()),
      read_(connection.database(), kRead),
      write_(connection.database(), kWrite),
      erase_(connection.database(),
             "DELETE FROM outbox_relay_rows WHERE outbox = ?1 AND row_key = ?2") {}

std::optional<SideRow> SideRows::read(const Value& key, std::uint32_t fingerprint) {
  auto rows = read_.rows(outbox_, key, fingerprint);
  if (!rows.next()) return std::nullopt;
  SideRow side;
  side.state = rows.maybe_text(0);
  side.dead_letter_reason = rows.maybe_text(1);
  side.error = rows.maybe_text(2);
  side.due = rows.maybe_text(3);
  side.retry_count = rows.maybe_integer(4);
  side.processed_on = rows.maybe_text(5);
  side.generation = count_of(rows.integer(6));
  side.counted = count_of(rows.integer(7));
  side.misconfigured_tries = count_of(rows.integer(8));
  const bool this_boot = !rows.null(13) && rows.integer(13) == boot_number_;
  const auto moment = [&](int wall, int boot) {
    return rows.null(wall) ? std::nullopt
                           : std::optional(Moment{rows.text(wall),
                                                  this_boot ? rows.integer(boot) : kOtherBoot});
  };
  side.misconfigured_since = moment(9, 14);
  side.last_failure = kind_named(rows.text(10));
  side.last_delay = std::chrono::milliseconds(rows.integer(11));
  side.last_attempt = moment(12, 15);
  side.outcome_unknown = rows.integer(16) != 0;
  side.takeovers = count_of(rows.integer(17));
  side.crashes = count_of(rows.integer(18));
  side.waits_for_recovery_epoch = rows.maybe_integer(19);
  side.fingerprint = count_of(rows.integer(20));
  return side;
}

void SideRows::write(const Value& key, const SideRow& side) {
  // A moment of an earlier boot is moved to this boot's axis, so that one boot number does for
  // both.
  const auto boot_of = [&](const std::optional<Moment>& moment) -> std::optional<std::int64_t> {
    if (!moment) return std::nullopt;
    if (moment->boot != kOtherBoot) return moment->boot;
    return (clocks_.boot->now().time_since_epoch() - since(*moment)).count();
  };
  const auto wall_of = [](const std::optional<Moment>& moment) {
    return moment ? std::optional(moment->wall) : std::nullopt;
  };
  const auto last_failure = side.last_failure == FailureKind::none
                                ? std::nullopt
                                : std::optional<std::string>(name_of(side.last_failure));
  write_.run(outbox_, key, side.state, side.dead_letter_reason, side.error, side.due,
             side.retry_count, side.processed_on, side.generation, side.counted,
             side.misconfigured_tries, wall_of(side.misconfigured_since), last_failure,
             std::chrono::ceil<std::chrono::milliseconds>(side.last_delay).count(),
             wall_of(side.last_attempt), boot_number_, boot_of(side.misconfigured_since),
             boot_of(side.last_attempt), side.outcome_unknown ? 1 : 0, side.takeovers, side.crashes,
             side.waits_for_recovery_epoch, side.fingerprint);
}

Moment SideRows::now() const {
  return {to_text(clocks_.wall()), clocks_.boot->now().time_since_epoch().count()};
}

Duration SideRows::since(const Moment& moment) const {
  Duration age{0};
  if (moment.boot != kOtherBoot) {
    age = clocks_.boot->now().time_since_epoch() - Duration(moment.boot);
  } else if (const auto wall = parse_time(moment.wall)) {
    age = clocks_.wall() - *wall;
  }
  return std::max(age, Duration{0});
}

}  // namespace outbox::sqlite
