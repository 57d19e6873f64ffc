"""PostgreSQL -> relays -> a RabbitMQ quorum queue, read by a consumer that is not ours: what is
promised of this pair, while everything on the database's side breaks."""

import contextlib
import json
import os
import pathlib
import subprocess
import threading
import time

import pytest

from harness import checks
from harness.pair import by_way, is_marked
from harness.relay import merged, now
from harness.waiting import holds, until

PROOF = bool(os.environ.get("OUTBOX_PROOF"))
MANY = int(os.environ.get("OUTBOX_E2E_ROWS", "100000"))
KEYED = {"relay": {"ordering": "key"}}
# Leases that end soon. A publish may take a third of one.
SHORT = {"relay": {"leaseTerm": "6s"}, "brokers": {"main": {"publishTimeout": "2s"}},
         "store": {"commandTimeout": "2s"}}
BACK_WITHIN = 10  # seconds from the database's return until a relay works again
POOLER_WAITS = 15  # seconds until a pooler tries a server again that it could not log in to
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


@contextlib.contextmanager
def pgbench(pair, transactions, rate=0):
    """Meanwhile an application writes: ten rows a transaction, and one in ten is rolled back. Each
    of its four clients has a hundred keys of its own."""
    script = os.path.join(pair.world.folder, "insert.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write("\\set keep random(1, 10)\n\\set tens random(0, 9)\nBEGIN;\n"
                   "INSERT INTO outbox_messages (id, event_type, payload, ordering_key)\n"
                   "SELECT 'bench-' || gen_random_uuid(), 'order.placed', '{\"by\":\"pgbench\"}',\n"
                   "'client' || :client_id || '-' || :tens || g FROM generate_series(1, 10) AS g;\n"
                   "\\if :keep > 1\nCOMMIT;\n\\else\nROLLBACK;\n\\endif\n")
    pace = ["-R", str(rate)] if rate else []
    bench = subprocess.Popen(["pgbench", "-n", "-f", script, "-c", "4", "-t",
                              str(transactions // 4), *pace, pair.outbox.url],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield bench
        errors = bench.communicate(timeout=300)[1]
        assert bench.returncode == 0, errors
    finally:
        bench.kill()
        bench.wait()


def told_of_the_database(relay):
    """A database that fails is a store fault, said once and again when it is over; it is no fault
    of the broker's."""
    relay.wait_ready(30)
    assert relay.metric("store_faults_total", operation="turn") > 0
    assert relay.metric("store_up") == 1
    words = [entry["msg"] for entry in relay.log()]
    assert words.count("store usable again") > 0, words
    faults = [entry for entry in relay.log() if entry["msg"].startswith("store not usable")]
    assert faults and all(entry["error"] for entry in faults), faults


def circuit_stayed_closed(relay):
    assert relay.circuit() == "closed"
    assert relay.metric("broker_circuit_transitions_total") == 0
    assert relay.metric("broker_circuit_open_total") == 0


def not_ready_because_of_the_database(relay):
    status, body = relay.get("/readyz")
    told = json.loads(body) if status == 503 else {}
    return (told.get("state") == "store_unusable" and "127.0.0.1" in told["reason"]
            and relay.metric("store_up") == 0)


# ---- Nothing breaks ----------------------------------------------------------------------------

@by_way("direct")
def test_many_rows_arrive_once(pair):
    pair.fill(MANY)
    running = pair.relays()
    with pgbench(pair, 400):
        pass
    pair.settled(240)
    pair.check_all_sent()
    rows = len(pair.truth())
    assert rows > MANY
    counts = [relay.metric("published_total") for relay in running]
    assert sum(counts) == rows and min(counts) > 0, counts
    assert sum(relay.metric("publish_attempts_total") for relay in running) == rows
    assert [relay.stop() for relay in running] == [0] * len(running)
    assert pair.leases() == 0


@by_way("pooler")
def test_the_order_of_each_key_is_kept(pair):
    pair.fill(8_000, keys=400)
    running = pair.relays(KEYED)
    pair.settled(120)
    pair.check_all_sent(ordered=True)
    assert pair.published() == 8_000
    assert [relay.stop() for relay in running] == [0] * len(running)
    assert pair.leases() == 0


# ---- Relays end --------------------------------------------------------------------------------

@by_way("grants")
@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_relay_killed_each_second_loses_nothing(pair, ordering):
    running = pair.relays(merged(SHORT, {"relay": {"ordering": ordering}}))
    in_flight = kills = 0
    with pgbench(pair, 3_000 if PROOF else 1_600, rate=200) as bench:
        while bench.poll() is None:
            time.sleep(1)  # the fault's rhythm, not a wait for anything
            victim = running[kills % len(running)]
            victim.kill()
            in_flight += len(pair.held_by(victim))
            victim.start(wait=False)
            kills += 1
    assert kills > 5
    pair.settled(120)
    # A row comes twice only if it was in flight at a kill; then the second one is marked.
    pair.check_all_sent(repeats_max=in_flight, ordered=ordering == "key")
    assert in_flight == 0 or any("took over leases" in relay.log_text() for relay in running)
    assert pair.outbox.states() == {"Processed": len(pair.truth())}
    for relay in running:
        circuit_stayed_closed(relay)


def holder_and_heir(pair, settings, count, keys=0, clocks=()):
    """Two relays. One holds rows that it can't send; the other one knows of nothing yet."""
    holder = pair.relay(settings, "holder", alone=True, start=False)
    heir = pair.relay(settings, "heir", start=False)
    for relay, offset in zip((holder, heir), clocks):
        FalseClock(pair, relay, offset)
    holder.start()
    pair.queue.wait_for_ids(pair.fill(1, prefix="first"), 20)  # it is connected
    pair.settled(10)
    heir.start()
    heir.pause()
    holder.broker.black_hole()
    ids = pair.fill(count, prefix="held", keys=keys)
    until(lambda: len(pair.held_by(holder)) == count, 20,
          lambda: f"all is held: {len(pair.held_by(holder))}")
    return holder, heir, ids


def moved_not_before(pair, ids, end):
    """All of these arrived once, marked as possible repeats, and after that moment."""
    moved = [entry for entry in pair.queue.arrivals() if entry["id"] in set(ids)]
    assert len(moved) == len(ids)
    assert all(is_marked(entry) for entry in moved)
    early = [f"{entry['id']}: {end - entry['t']:.3f} s before the lease's end"
             for entry in moved if entry["t"] < end]
    assert not early, checks.report(early)


@by_way("direct")
@pytest.mark.parametrize("ordering", ["none", "key"])
def test_the_rows_of_a_killed_relay_move_when_its_lease_ends(pair, ordering):
    settings = merged(SHORT, {"relay": {"ordering": ordering}})
    holder, heir, ids = holder_and_heir(pair, settings, 100, keys=10)
    holder.kill()
    end = pair.lease_end(holder)
    assert pair.held_by(holder) == ids
    heir.resume()
    # Half of these stand behind rows that are held, if there is an order.
    later = pair.fill(100, prefix="later", keys=20)
    blocked = [name for name in later if int(name.split("-")[1]) % 20 < 10 and ordering == "key"]
    pair.queue.wait_for_ids(set(later) - set(blocked), 20)
    pair.settled(60)
    pair.check_all_sent(ordered=ordering == "key")
    moved_not_before(pair, ids, end)
    places = {entry["id"]: entry["t"] for entry in pair.queue.arrivals()}
    assert all(places[name] >= end for name in blocked)
    assert all(places[name] < places[ids[0]] for name in set(later) - set(blocked))
    assert heir.metric("lease_expired_total") == len(ids)
    assert heir.metric("redelivered_total") == len(ids)
    told = [entry["leases"] for entry in heir.log() if entry["msg"].startswith("took over leases")]
    assert sum(told) == len(ids)
    circuit_stayed_closed(heir)


@by_way("grants")
@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_relay_that_stops_hands_its_rows_over_at_once(pair, ordering):
    settings = merged(SHORT, {"relay": {"leaseTerm": "120s", "drainTimeout": "1s",
                                        "ordering": ordering}})
    holder, heir, ids = holder_and_heir(pair, settings, 100, keys=10)
    end = pair.lease_end(holder)
    assert end > now() + 60
    heir.resume()
    assert holder.stop() == 0
    assert pair.held_by(holder) == []
    pair.settled(45)
    pair.check_all_sent(ordered=ordering == "key")
    assert now() < end
    assert heir.metric("published_total") == len(ids) and heir.metric("lease_expired_total") == 0


# ---- The way to the database breaks ------------------------------------------------------------

@by_way("pooler")
def test_a_connection_that_is_reset_costs_nothing(pair):
    running = pair.relays()
    victim = pair.relay(name="victim", alone=True)
    with pgbench(pair, 1_200, rate=200) as bench:
        until(lambda: victim.database.drop_connections() or bench.poll() is not None, 60,
              "the application has written", poll=0.3)
    until(lambda: victim.database.drop_connections() or
          victim.metric("store_faults_total", operation="turn") > 2, 60, "faults", poll=0.3)
    pair.settled(60)
    pair.check_all_sent()
    told_of_the_database(victim)
    assert pair.untouched()
    assert pair.published() == len(pair.truth())
    for relay in [victim, *running]:
        circuit_stayed_closed(relay)
        assert relay.metric("lease_expired_total") == 0


def stable_lease_end(pair, relay):
    """Of a relay that has just been cut off: what it had sent before may still be at work."""
    ends = []

    def stable():
        ends.append(pair.lease_end(relay))
        return len(ends) > 1 and abs(ends[-1] - ends[-2]) < 0.2

    until(stable, 5, "its last renewal is done", poll=0.3)
    return min(ends[-2:])


@by_way("direct")
@pytest.mark.parametrize("fault", ["black_hole", "refuse"])
def test_a_relay_cut_off_from_the_database_keeps_its_rows_until_their_lease_ends(pair, fault):
    """It reaches nobody: what it holds is sent by the other one, later, and by itself no more."""
    holder, heir, ids = holder_and_heir(pair, SHORT, 100)
    getattr(holder.database, fault)()
    end = stable_lease_end(pair, holder)
    assert pair.held_by(holder) == ids
    heir.resume()
    pair.queue.wait_for_ids(pair.fill(100, prefix="later"), 20)
    until(lambda: not_ready_because_of_the_database(holder), 15, "it says that it is lost")
    assert holder.get("/livez")[0] == 200
    pair.settled(60)
    moved_not_before(pair, ids, end)
    assert heir.metric("lease_expired_total") == len(ids)
    for proxy in (holder.broker, holder.database):
        proxy.let_pass()
        proxy.drop_connections()
    told_of_the_database(holder)
    # What it has to say of rows that are no longer its own changes nothing.
    until(lambda: holder.metric("settlements_fenced_total") > 0, 20, "it is told so")
    assert "settlements came too late and changed nothing" in holder.log_text()
    pair.queue.wait_for_ids(pair.fill(100, prefix="last"), 30)
    pair.settled(30)
    pair.check_all_sent()


@by_way("pooler")
def test_rows_confirmed_during_a_partition_are_sent_again_by_their_next_holder(pair):
    """The broker is there, the database is not: what was confirmed can't be recorded, and whoever
    gets these rows must send them again."""
    patient = merged(SHORT, {"relay": {"leaseTerm": "12s"},
                             "brokers": {"main": {"publishTimeout": "4s"}}})
    holder = pair.relay(patient, "holder", alone=True)
    heir = pair.relay(patient, "heir")
    heir.pause()
    pair.queue.wait_for_ids(pair.fill(1, prefix="first"), 20)
    pair.settled(10)
    holder.broker.stall()
    ids = pair.fill(100, prefix="held")
    until(lambda: pair.held_by(holder) == ids, 20, "all is held")
    holder.database.black_hole()
    holder.broker.go_on()
    pair.queue.wait_for_ids(ids, 20)
    end = stable_lease_end(pair, holder)
    heir.resume()
    pair.settled(60)
    pair.check_all_sent(repeats_max=len(ids))
    again = [entry for entry in pair.queue.arrivals() if is_marked(entry)]
    assert {entry["id"] for entry in again} == set(ids) and pair.repeats() == len(ids)
    assert all(entry["t"] >= end for entry in again)
    assert heir.metric("redelivered_total") == heir.metric("lease_expired_total") == len(ids)
    holder.database.let_pass()
    holder.database.drop_connections()
    told_of_the_database(holder)
    pair.queue.wait_for_ids(pair.fill(100, prefix="last"), 30)
    pair.settled(30)
    assert pair.repeats() == len(ids) and pair.untouched()
    assert pair.published() == len(pair.truth()) + len(ids)
    for relay in (holder, heir):
        circuit_stayed_closed(relay)


@by_way("grants")
def test_an_outcome_that_got_lost_is_found_out(pair):
    """COMMIT is carried out and its answer lost: the turn is repeated, and finds itself done."""
    running = pair.relays()
    for cut in range(1, 13 if PROOF else 9):
        pair.fill(1_000, prefix=f"cut{cut}")
        pair.database.cut_next_commit()
        until(lambda: len(pair.database.cuts()) == cut, 30, f"commit {cut} is cut")
        pair.settled(60)
    pair.check_all_sent()
    assert pair.untouched()
    assert sum(relay.metric("store_faults_total", operation="turn") for relay in running) > 0
    for relay in running:
        circuit_stayed_closed(relay)
        # No lease was forgotten, and nothing was settled twice.
        assert relay.metric("lease_expired_total") == 0
        assert relay.metric("settlements_fenced_total") == 0


def works_again(pair, prefix, seconds):
    """Something is sent within the time: there may be much to be sent before the new row."""
    before = len(pair.queue.consumer.deliveries())
    pair.fill(1, prefix=prefix)
    pair.queue.wait_for_count(before + 1, seconds)


@by_way("direct")
def test_a_database_killed_and_started_again_is_gone_on_with(pair):
    pair.fill(MANY // 5)
    running = pair.relays()
    pair.queue.wait_for_count(MANY // 50, 60)
    pair.server.kill()
    try:
        for relay in running:
            until(lambda: not_ready_because_of_the_database(relay), 20, "it is not ready")
            assert relay.get("/livez")[0] == 200
        holds(lambda: all(relay.circuit() == "closed" for relay in running), 2, "circuits closed")
    finally:
        pair.server.start()  # for whoever comes next, too
    works_again(pair, "back", BACK_WITHIN + (POOLER_WAITS if pair.way == "pooler" else 0))
    pair.settled(120)
    # The outcome of the last turns is found out; what was sent meanwhile is settled late.
    pair.check_all_sent()
    assert pair.untouched()
    assert pair.published() == len(pair.truth())
    for relay in running:
        told_of_the_database(relay)
        circuit_stayed_closed(relay)


@by_way("grants")
def test_a_network_that_swallows_everything_for_20_s_is_survived(pair):
    """Relays keep what they hold if their leases are longer than that, and lose it otherwise."""
    slow = {"store": {"commandTimeout": "3s"}}
    keeping = [pair.relay(merged(slow, {"relay": {"leaseTerm": "60s"}}), f"keeping{number}")
               for number in range(2)]
    losing = pair.relay(merged(SHORT, slow), "losing")
    pair.fill(MANY // 5)
    pair.queue.wait_for_count(MANY // 50, 60)
    pair.database.black_hole()
    began = now()
    for relay in [*keeping, losing]:
        until(lambda: not_ready_because_of_the_database(relay), 20, "it is not ready")
    may_repeat = pair.held_by(losing)
    until(lambda: now() > began + 20, 30, "20 s have passed")
    assert all(relay.get("/livez")[0] == 200 for relay in [*keeping, losing])
    pair.database.let_pass()
    pair.database.drop_connections()
    works_again(pair, "back", BACK_WITHIN)
    pair.settled(120)
    pair.check_all_sent(repeats_max=len(may_repeat))
    repeated = {line.split(": ")[1] for line in checks.repeats(pair.queue.arrivals())}
    assert repeated <= set(may_repeat)
    assert pair.untouched()
    for relay in [*keeping, losing]:
        told_of_the_database(relay)
        circuit_stayed_closed(relay)


# ---- Applications take their time --------------------------------------------------------------

@by_way("grants")
def test_rows_that_commit_late_with_lower_numbers_hold_up_nobody(pair):
    seconds = 60 if PROOF else 5
    pair.relays()
    late = threading.Thread(target=pair.outbox.sql, args=(
        "BEGIN; INSERT INTO outbox_messages (id, event_type, payload) "
        "SELECT 'late-' || g, 'order.placed', '{}' FROM generate_series(1, 10) AS g; "
        f"SELECT pg_sleep({seconds}); COMMIT;",))
    late.start()
    until(lambda: pair.server.psql(f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE "
                                   f"'%pg_sleep({seconds})%' AND pid <> pg_backend_pid()") != "0",
          10, "the slow transaction is under way")
    rounds = 0
    while late.is_alive():
        pair.queue.wait_for_ids(pair.fill(500, prefix=f"round{rounds}"), 30)
        rounds += 1
    assert rounds > 0
    late.join()
    pair.settled(30)
    pair.check_all_sent()
    order = pair.queue.ids()
    assert order.index("late-1") > order.index("round0-500")
    assert pair.published() == rounds * 500 + 10


# ---- Clocks ------------------------------------------------------------------------------------

class FalseClock:
    """The wall clock of one relay; monotonic clocks go right, as they do on any machine."""

    def __init__(self, pair, relay, offset):
        self.path = os.path.join(pair.world.folder, f"{relay.name}.clock")
        self.set(offset)
        relay.environment = {"LD_PRELOAD": FAKETIME, "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                             "FAKETIME_TIMESTAMP_FILE": self.path, "FAKETIME_NO_CACHE": "1"}
        pair.world.finally_do(lambda: self._remove_traces(relay))

    @staticmethod
    def _remove_traces(relay):
        """A process that is killed leaves what faketime shares with its children."""
        for name in ("faketime_shm_", "sem.faketime_sem_"):
            pathlib.Path(f"/dev/shm/{name}{relay.pid}").unlink(missing_ok=True)

    def set(self, offset):
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(offset)
        os.rename(self.path + ".new", self.path)

    def shows(self, relay, offset):
        """Whether the relay has believed it."""
        shown = relay.metric("last_poll_success_timestamp_seconds")
        return abs(shown - (time.time() + offset)) < 300


def in_table_time(pair, text):
    """A time of the database's, by the clock of the harness's logs."""
    before = now()
    return before + float(pair.outbox.sql(f"SELECT extract(epoch FROM ({text}) - "
                                          "clock_timestamp())"))


needs_faketime = pytest.mark.skipif(not os.path.exists(FAKETIME), reason="not installed: faketime")


@needs_faketime
@by_way("direct")
@pytest.mark.parametrize("clocks", [("+1h", "-1h"), ("-1h", "+1h")])
def test_leases_end_when_they_should_whatever_the_clocks_of_relays_say(pair, clocks):
    holder, heir, ids = holder_and_heir(pair, merged(SHORT, KEYED), 100, keys=10, clocks=clocks)
    holder.kill()
    end = pair.lease_end(holder)
    assert 0 < end - now() < 7
    heir.resume()
    pair.settled(30)
    moved_not_before(pair, ids, end)
    pair.check_all_sent(ordered=True)


@needs_faketime
@by_way("pooler")
def test_clocks_that_are_wrong_and_jump_change_nothing(pair):
    relays = [pair.relay(merged(SHORT, KEYED), name, start=False)
              for name in ("right", "ahead", "behind", "jumping")]
    _, ahead, behind, jumping = relays
    FalseClock(pair, ahead, "+1h")
    FalseClock(pair, behind, "-1h")
    clock = FalseClock(pair, jumping, "+0")
    for relay in relays:
        relay.start()
    with pgbench(pair, 1_200, rate=100):
        pair.outbox.sql("INSERT INTO outbox_messages (id, event_type, payload, not_before_utc) "
                        "SELECT 'due-' || g, 'order.placed', '{}', clock_timestamp() + "
                        "interval '5 s' FROM generate_series(1, 20) AS g")
        due = in_table_time(pair, "SELECT min(not_before_utc) FROM outbox_messages")
        for hours in (2, -3, 1, -1, 0, 5):
            clock.set(f"{hours:+d}h")
            until(lambda: clock.shows(jumping, hours * 3600), 20, f"it is {hours} h later")
            assert clock.shows(ahead, 3600) and clock.shows(behind, -3600)
    pair.settled(60)
    pair.check_all_sent(ordered=True)
    times = [entry["t"] for entry in pair.queue.arrivals() if entry["id"].startswith("due-")]
    assert len(times) == 20 and due <= min(times) and max(times) < due + 20
    assert pair.published() == len(pair.truth())
    assert pair.untouched()
    assert sum(relay.metric("lease_expired_total") for relay in relays) == 0
