"""PostgreSQL for real: several relays, crashes of all that can crash, networks that lie."""

import collections
import os
import re
import subprocess
import threading
import time

import pytest

from harness import checks, postgres
from harness.outbox import sha
from harness.waiting import holds, until

pytestmark = pytest.mark.skipif(bool(postgres.MISSING),
                                reason=f"not installed: {', '.join(postgres.MISSING)}")
MANY = int(os.environ.get("OUTBOX_E2E_ROWS", "100000"))
FAST = {"relay": {"batchSize": 200, "maxInFlight": 400}, "brokers": {"main": {"connections": 8}}}


@pytest.fixture(scope="module")
def server():
    started = postgres.postgresql.PostgreSql(autovacuum="on", autovacuum_naptime="5s")
    started.start()
    yield started
    started.stop()


class Through:
    """The same outbox by another address."""

    def __init__(self, outbox, port):
        self.url = re.sub(r":\d+/", f":{port}/", outbox.url)


def fill(outbox, count, prefix="evt", keys=0):
    key = f"'key' || g % {keys}" if keys else "NULL"
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, ordering_key) "
               f"SELECT '{prefix}-' || g, 'order.placed', convert_to('{{\"n\":' || g || '}}', "
               f"'UTF8'), {key} FROM generate_series(1, {count}) AS g")
    return [f"{prefix}-{number}" for number in range(1, count + 1)]


def pgbench(outbox, folder, clients, transactions):
    """Writes rows in transactions of many clients, as an application does; some are rolled back."""
    script = os.path.join(folder, "insert.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write("""\\set keep random(1, 10)
BEGIN;
INSERT INTO outbox_messages (id, event_type, payload)
SELECT 'evt-' || gen_random_uuid(), 'order.placed', '{"by":"pgbench"}'
FROM generate_series(1, 10);
\\if :keep > 1
COMMIT;
\\else
ROLLBACK;
\\endif
""")
    done = subprocess.run(["pgbench", "-n", "-f", script, "-c", str(clients), "-j", "1", "-t",
                           str(transactions), outbox.url], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def ids_of(outbox):
    return set(outbox.sql("SELECT id FROM outbox_messages").split())


def settled(outbox, seconds):
    until(outbox.all_processed, seconds, lambda: f"all processed: {outbox.states()}", poll=0.2)


def sent_once(receiver, ids, repeats_max=0):
    counts = collections.Counter(receiver.accepted_ids())
    assert set(counts) == set(ids), (len(counts), len(ids))
    repeats = {name: count for name, count in counts.items() if count > 1}
    assert sum(repeats.values()) - len(repeats) <= repeats_max, (len(repeats), list(repeats)[:9])


def relays(world, outbox, receiver, count=3, settings=None):
    return [world.relay(outbox, receiver, settings or FAST, name=f"relay{number}")
            for number in range(count)]


def test_three_relays_send_all_of_many_rows_once(world, outbox, server):
    receiver = world.receiver()
    bulk = fill(outbox, MANY)
    running = relays(world, outbox, receiver)
    pgbench(outbox, world.folder, clients=4, transactions=100)
    settled(outbox, 240)
    ids = ids_of(outbox)
    assert ids > set(bulk)
    sent_once(receiver, ids)
    counts = [relay.metric("published_total") for relay in running]
    assert sum(counts) == len(ids) and min(counts) > 0, counts
    # Two connections for each relay, under its name.
    names = server.psql("SELECT application_name FROM pg_stat_activity "
                        "WHERE application_name LIKE 'outbox-relay%'").splitlines()
    for relay in running:
        mine = [name for name in names if name.endswith(f":{relay.pid}")]
        assert 1 <= len(mine) <= 2, names
    assert [relay.stop() for relay in running] == [0, 0, 0]
    assert outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "0"
    assert outbox.sql("SELECT count(*) FROM outbox_relay_incarnations") == "0"


def test_three_relays_keep_the_order_of_each_key(world, outbox):
    receiver = world.receiver()
    settings = {**FAST, "relay": {"batchSize": 50, "maxInFlight": 100, "ordering": "key"}}
    ids = fill(outbox, 6_000, keys=40)
    relays(world, outbox, receiver, settings=settings)
    settled(outbox, 120)
    sent_once(receiver, ids)
    last = collections.defaultdict(int)
    for event_id in receiver.accepted_ids():
        number = int(event_id.split("-")[1])
        assert number > last[number % 40], event_id
        last[number % 40] = number


def test_a_relay_killed_each_second_loses_nothing(world, outbox):
    receiver = world.receiver()
    settings = {**FAST, "relay": {**FAST["relay"], "leaseTerm": "3s"}}
    ids = fill(outbox, MANY // 4)
    running = relays(world, outbox, receiver, settings=settings)
    kills = 0
    while not outbox.all_processed() and kills < 12:
        victim = running[kills % 3]
        time.sleep(1)  # the fault's rhythm, not a wait for anything
        victim.kill()
        victim.start(wait=False)
        kills += 1
    assert kills > 0
    settled(outbox, 120)
    sent_once(receiver, ids, repeats_max=kills * 400)


def test_a_database_killed_and_started_again_is_gone_on_with(world, server, outbox):
    receiver = world.receiver()
    ids = fill(outbox, 20_000)
    running = relays(world, outbox, receiver)
    until(lambda: len(receiver.accepted_ids()) > 2_000, 60, "some rows are sent")
    server.kill()
    until(lambda: all(relay.get("/readyz")[0] == 503 for relay in running), 15, "none is ready")
    server.start()
    until(lambda: all(relay.get("/readyz")[0] == 200 for relay in running), 15, "all are ready")
    settled(outbox, 120)
    # The outcome of the last turns is found out; what was sent meanwhile is settled late.
    sent_once(receiver, ids)


def test_an_outcome_that_got_lost_is_found_out(world, server, outbox):
    receiver, proxy = world.receiver(), world.database_proxy(server)
    relay = world.relay(Through(outbox, proxy.port), receiver, FAST)
    ids = fill(outbox, 6_000)
    for cut in range(1, 9):
        if outbox.all_processed():
            ids += fill(outbox, 3_000, prefix=f"more{cut}")
        proxy.cut_next_commit()
        until(lambda: len(proxy.cuts()) == cut, 30, f"commit {cut} is cut")
        until(lambda: relay.get("/readyz")[0] == 200, 15, "it is connected again")
    settled(outbox, 60)
    sent_once(receiver, ids)


def test_a_network_that_swallows_everything_is_given_up_and_leases_hold(world, server, outbox):
    receiver, proxy = world.receiver(), world.database_proxy(server)
    short = {"store": {"commandTimeout": "2s"}, "relay": {**FAST["relay"], "leaseTerm": "6s"}}
    lost = world.relay(Through(outbox, proxy.port), receiver, {**FAST, **short}, name="lost")
    receiver.rules({"delay": 0.2})
    ids = fill(outbox, 1_000)
    until(lambda: len(receiver.accepted_ids()) > 50, 30, "the first rows are sent")
    proxy.black_hole()
    # Its turn ends by the time-out, and it stays alive.
    until(lambda: lost.get("/readyz")[0] == 503, 15, "it says that it is lost")
    other = world.relay(outbox, receiver, {**FAST, **short}, name="other")
    settled(outbox, 60)
    assert lost.get("/livez")[0] == 200
    receiver.rules()
    proxy.let_pass()
    proxy.drop_connections()
    until(lambda: lost.get("/readyz")[0] == 200, 20, "it is back")
    sent_once(receiver, ids, repeats_max=400)
    more = fill(outbox, 500, prefix="later")
    settled(outbox, 30)
    sent_once(receiver, ids + more, repeats_max=400)
    assert [other.stop(), lost.stop()] == [0, 0]


@pytest.mark.skipif(not os.path.exists(postgres.pgbouncer.POOLER), reason="no pgbouncer")
def test_eight_relays_share_two_sessions_of_a_pooler(world, server, outbox):
    """Transactions of one relay land in different sessions, and nothing is remembered there."""
    pooler = postgres.pgbouncer.PgBouncer(server, pool=2)
    world.finally_do(pooler.stop)
    pooler.start()
    receiver = world.receiver()
    settings = {"relay": {"batchSize": 100, "maxInFlight": 200, "ordering": "key"},
                "brokers": {"main": {"connections": 2}}}
    ids = fill(outbox, 8_000, keys=200)
    running = relays(world, Through(outbox, pooler.port), receiver, count=8, settings=settings)
    settled(outbox, 120)
    sent_once(receiver, ids)
    assert [relay.stop() for relay in running] == [0] * 8
    assert outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "0"


def test_rows_committed_late_with_lower_numbers_are_sent(world, server, outbox):
    receiver = world.receiver()
    world.relay(outbox, receiver, FAST)
    slow = threading.Thread(target=outbox.sql, args=(
        "BEGIN; INSERT INTO outbox_messages (id, event_type, payload) VALUES "
        "('late-1', 'order.placed', '{}'), ('late-2', 'order.placed', '{}'); "
        "SELECT pg_sleep(3); COMMIT;",))
    slow.start()
    until(lambda: server.psql("SELECT count(*) FROM pg_stat_activity "
                              "WHERE query LIKE '%pg_sleep(3)%' AND pid <> pg_backend_pid()") != "0",
          10, "the slow transaction is under way")
    ids = fill(outbox, 2_000)
    receiver.wait_for_ids(ids, 30)
    assert "late-1" not in receiver.accepted_ids()
    slow.join()
    receiver.wait_for_ids(["late-1", "late-2"], 5)
    settled(outbox, 10)
    sent_once(receiver, [*ids, "late-1", "late-2"])


def test_an_idle_relay_writes_nothing(world):
    """On a server of its own: no vacuum, nobody else."""
    quiet = postgres.postgresql.PostgreSql()
    world.finally_do(quiet.stop)
    quiet.start()
    outbox, receiver = postgres.PostgresOutbox(quiet), world.receiver()
    world.relay(outbox, receiver, FAST)
    fill(outbox, 10)
    settled(outbox, 20)
    until(lambda: outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "0", 10, "it is idle")

    def written():
        return quiet.psql("SELECT pg_snapshot_xmax(pg_current_snapshot())")

    before = written()
    holds(lambda: written() == before, 3, "nobody writes")


def test_a_read_replica_is_refused(world, server):
    """A primary that has been made a standby: the same thing to whoever connects."""
    standby = postgres.postgresql.PostgreSql()
    world.finally_do(standby.stop)
    standby.start()
    outbox = postgres.PostgresOutbox(standby)
    standby.halt()
    signal_file = os.path.join(standby.data, "standby.signal")
    with open(signal_file, "w", encoding="ascii"):
        pass
    standby.start()
    relay = world.relay(outbox, world.receiver(), start=False)
    relay.start(wait=False)
    until(lambda: "read replica" in relay.get("/readyz")[1], 15,
          lambda: f"the reason on /readyz: {relay.get('/readyz')}")
    assert relay.get("/livez")[0] == 200


def test_inserts_are_heard_of_where_the_trigger_is_there(world, outbox):
    receiver = world.receiver()
    printed = outbox.command("init").stdout
    trigger = "\n".join(line.removeprefix("-- ") for line in printed.splitlines()
                        if line.startswith("-- CREATE") or line.startswith("-- BEGIN")
                        or line.startswith("--   FOR"))
    outbox.sql(trigger)
    slow_poll = {**FAST, "relay": {**FAST["relay"], "pollInterval": "30s", "leaseTerm": "30s"}}
    world.relay(outbox, receiver, slow_poll)
    fill(outbox, 1, prefix="first")
    receiver.wait_for_ids(["first-1"], 31)
    fill(outbox, 1, prefix="second")
    receiver.wait_for_ids(["second-1"], 5)


def test_nothing_of_the_truth_is_changed_on_the_way(world, outbox):
    receiver = world.receiver()
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, ordering_key, headers) VALUES "
               "('a', 'order.placed', '\\x00ff0a'::bytea, 'Schlüssel', '{\"tenant\": \"ä\"}')")
    world.relay(outbox, receiver, FAST)
    receiver.wait_for_ids(["a"], 20)
    truth = [{"id": "a", "type": "order.placed", "key": "Schlüssel", "size": 3,
              "sha": sha(b"\x00\xff\n"), "headers": {"tenant": "ä"}}]
    assert checks.differences(truth, receiver.requests()) == []
