"""PostgreSQL -> relays -> RabbitMQ: an outbox, a quorum queue, proxies in front of both, and the
ways in which relays reach the database.

    @by_way("pooler")                 # the way of a plain run; with OUTBOX_PROOF=1 it runs by all
    def test_something(pair):
        rows = pair.fill(1_000, keys=10)
        pair.relays()                 # three, behind a pooler eight
        pair.settled(60)
        pair.check_all_sent()
"""

import os

import pytest

from . import amqp, checks, postgres
from .relay import merged, now
from .waiting import until

MISSING = postgres.MISSING + amqp.MISSING
WAYS = ("direct", "pooler", "grants")
CROWD = {"direct": 3, "pooler": 8, "grants": 3}  # relays
# Times that a busy machine keeps: without a fault there is no time-out, and no lease ends.
SETTINGS = {"relay": {"batchSize": 200, "maxInFlight": 400, "leaseTerm": "30s"},
            "brokers": {"main": {"publishTimeout": "10s"}}}


def by_way(*normal):
    """Which ways a test takes: those named here, or all of them at length."""
    return pytest.mark.parametrize("way", WAYS if os.environ.get("OUTBOX_PROOF") else normal)


class Address:
    """What a relay is told of an outbox."""

    def __init__(self, url):
        self.url = url


class Pair:
    """direct: as the owner. pooler: through PgBouncer, which lends two sessions by transaction.
    grants: as a role that may do what `init --grants` prints, and nothing else."""

    def __init__(self, world, server, rabbit, way="direct", **queue_arguments):
        self.world, self.server, self.rabbit, self.way = world, server, rabbit, way
        self.outbox = postgres.PostgresOutbox(server)
        self.queue = amqp.Queue(world.folder, rabbit, **queue_arguments)
        world.keep(self.queue.consumer)
        self.role, self._port = "postgres", server.port
        if way == "grants":
            self._make_role()
        if way == "pooler":
            self._start_pooler()
        # Shared by all relays that have none of their own.
        self.database, self.broker = self._proxies("all")

    def _make_role(self):
        self.role = f"relay_{self.outbox.database}"
        self.server.psql(f"CREATE ROLE {self.role} LOGIN")
        done = self.outbox.command("init", "--grants", self.role)
        assert done.returncode == 0, done
        self.outbox.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC; " + done.stdout)

    def _start_pooler(self):
        if not os.path.exists(postgres.pgbouncer.POOLER):
            pytest.skip("not installed: pgbouncer")
        pooler = postgres.pgbouncer.PgBouncer(self.server, pool=2)
        self.world.finally_do(pooler.stop)
        pooler.start()
        self._port = pooler.port

    def _proxies(self, name):
        return (self.world.tcp_proxy(self._port, f"database-{name}"),
                self.world.tcp_proxy(self.rabbit.port, f"broker-{name}"))

    def relay(self, settings=None, name="relay", alone=False, **options):
        """With `alone` it has proxies of its own. Either way they are its `database`, `broker`."""
        database, broker = self._proxies(name) if alone else (self.database, self.broker)
        address = Address(f"postgres://{self.role}@127.0.0.1:{database.port}/{self.outbox.database}")
        chosen = merged({"brokers": {"main": {"exchange": self.queue.exchange}}},
                        merged(SETTINGS, settings or {}))
        relay = self.world.relay(address, f"amqp://127.0.0.1:{broker.port}", chosen, name, **options)
        relay.database, relay.broker = database, broker
        return relay

    def relays(self, settings=None, count=None, **options):
        return [self.relay(settings, f"relay{number}", **options)
                for number in range(count or CROWD[self.way])]

    def fill(self, count, prefix="evt", keys=0):
        """Rows written by psql in one transaction; returns their ids, in the table's order."""
        key = f"'key' || g % {keys}" if keys else "NULL"
        self.outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, ordering_key) "
                        f"SELECT '{prefix}-' || g, 'order.placed', "
                        f"convert_to('{{\"n\":' || g || '}}', 'UTF8'), {key} "
                        f"FROM generate_series(1, {count}) AS g")
        return [f"{prefix}-{number}" for number in range(1, count + 1)]

    def truth(self):
        """All rows in the table's order, as harness.checks wants them."""
        text = self.outbox.sql(
            "SELECT id, coalesce(ordering_key, ''), encode(sha256(payload), 'hex'), event_type, "
            "octet_length(payload) FROM outbox_messages ORDER BY sequence")
        rows = [line.split("|") for line in text.splitlines()]
        return [{"id": row[0], "key": row[1], "sha": row[2], "type": row[3], "size": int(row[4])}
                for row in rows]

    def kill_broker(self):
        """As a crash would; `rabbit.start()` starts it again."""
        self.queue.wait_durable()
        self.rabbit.kill()

    def settled(self, seconds):
        until(self.outbox.all_processed, seconds,
              lambda: f"all processed: {self.outbox.states()}", poll=0.2)

    def held_by(self, relay):
        """Ids of the rows that are leased to it, as the database says."""
        return self.outbox.sql(
            "SELECT m.id FROM outbox_relay_leases AS l "
            "JOIN outbox_relay_incarnations AS i USING (outbox, incarnation) "
            "JOIN outbox_messages AS m ON m.sequence::text = l.row_key "
            f"WHERE i.instance_pid = {relay.pid} ORDER BY m.sequence").split()

    def lease_end(self, relay):
        """When its leases end: the database's answer, by the clock of the harness's logs."""
        before = now()
        return before + float(self.outbox.sql(
            "SELECT extract(epoch FROM lease_until - clock_timestamp()) "
            f"FROM outbox_relay_incarnations WHERE instance_pid = {relay.pid}"))

    def untouched(self):
        """Whether no row was ever charged with a failure, or given up."""
        return self.outbox.sql(
            "SELECT count(*) FROM outbox_messages WHERE retry_count > 0 OR last_error IS NOT NULL "
            "OR status = 'DeadLettered'") == "0"

    def leases(self):
        return int(self.outbox.sql("SELECT count(*) FROM outbox_relay_leases"))

    def published(self):
        """The sum over the relays that live; one that was killed has forgotten its own."""
        return sum(relay.metric("published_total")
                   for relay in self.world.relays if relay.running())

    def repeats(self):
        """How many arrivals were not the first of their id."""
        ids = self.queue.ids()
        return len(ids) - len(set(ids))

    def check_all_sent(self, repeats_max=0, ordered=False, seconds=30):
        """What is in the table has arrived as it stands there, nothing else has, and in order."""
        truth = self.truth()
        self.queue.wait_for_ids([row["id"] for row in truth], seconds)
        arrivals = self.queue.arrivals()
        for findings in (checks.phantoms(truth, arrivals), differences(truth, arrivals),
                         disorder(truth, arrivals) if ordered else []):
            assert not findings, checks.report(findings)
        repeats = checks.repeats(arrivals)
        assert self.repeats() <= repeats_max, checks.report(repeats)
        unmarked = unmarked_repeats(arrivals)
        assert not unmarked, checks.report(unmarked)


def is_marked(entry):
    """Whether the relay said that this may be a repeat."""
    return "outbox-redelivered" in entry["headers"]


def unmarked_repeats(arrivals):
    seen, found = set(), []
    for entry in arrivals:
        if entry["id"] in seen and not is_marked(entry):
            found.append(f"{entry['id']}: arrival {entry['n']}")
        seen.add(entry["id"])
    return found


def disorder(truth, arrivals):
    return checks.disorder([row for row in truth if row["key"]], arrivals)


def differences(truth, arrivals):
    """Arrivals that are not the row that was written."""
    rows = {row["id"]: row for row in truth}
    found = []
    for entry in arrivals:
        row = rows.get(entry["id"])
        got = {"key": entry["headers"].get("cloudEvents_subject", ""),
               **{name: entry[name] for name in ("id", "sha", "type", "size")}}
        if row is not None and got != row:
            found.append(f"{got} instead of {row}")
        if not entry["persistent"]:
            found.append(f"{entry['id']} is not persistent")
    return found
