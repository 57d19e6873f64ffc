"""Several relays before one dead broker: they share one circuit, and one of them probes for all."""

import pytest

from harness import postgres
from harness.relay import now
from harness.waiting import until
from harness.world import wait_processed

RELAYS = 3
BREAK = 1.0
PROBES = 6
SETTINGS = {
    "relay": {"batchSize": 20, "maxInFlight": 40, "pollInterval": "100ms"},
    "breaker": {"breakDuration": "1s"},
    "retry": {"baseDelay": "2m", "maxDelay": "5m", "jitter": "none"},
}

SOON = {**SETTINGS, "retry": {"baseDelay": "50ms", "maxDelay": "200ms"}}


@pytest.fixture(params=["sqlite", "postgres"])
def outbox(request, world):
    if request.param == "sqlite":
        return world.outbox()
    return postgres.PostgresOutbox(request.getfixturevalue("server"))


def insert(outbox, first, count):
    names = [f"evt-{number}" for number in range(first, first + count)]
    if isinstance(outbox, postgres.PostgresOutbox):
        outbox.sql("INSERT INTO outbox_messages (id, event_type, payload) SELECT 'evt-' || n, "
                   f"'order.placed', '\\x7b7d' FROM generate_series({first}, {first + count - 1}) n")
        return names
    return outbox.insert_many(count)


def all_settled(outbox):
    if isinstance(outbox, postgres.PostgresOutbox):
        until(outbox.all_processed, 60, lambda: f"all processed: {outbox.states()}")
    else:
        wait_processed(outbox, 60)


def outage(world, outbox, settings=None):
    """Relays at work, then a broker that answers 503 to all of them, until their circuits are open."""
    receiver = world.receiver()
    relays = [world.relay(outbox, receiver, settings or SETTINGS, name=f"relay{number}")
              for number in range(RELAYS)]
    receiver.wait_for_ids(insert(outbox, 1, 60), 30)
    receiver.rules({"status": 503})
    ids = insert(outbox, 1000, 300)
    until(lambda: all(relay.circuit() != "closed" for relay in relays), 30, "all circuits open")
    return receiver, relays, ids


def test_one_probe_a_break_goes_out_for_all_relays(world, outbox):
    receiver, relays, ids = outage(world, outbox)
    before, began = len(receiver.requests()), now()
    until(lambda: len(receiver.requests()) - before >= PROBES, 60, "probes go out")
    probes, took = len(receiver.requests()) - before, now() - began
    # A break lasts 0.8 to 1.2 times what it is set to; at either end a probe may be just out.
    assert probes <= took / (0.8 * BREAK) + 2, (probes, took)

    receiver.rules()
    receiver.wait_for_ids(ids, 30)
    until(lambda: all(relay.circuit() == "closed" for relay in relays), 10, "all circuits closed")
    all_settled(outbox)
    assert sum(relay.metric("published_total") for relay in relays) == 60 + len(ids)
    assert sum(relay.metric("dead_lettered_total") for relay in relays) == 0
    told = [relay for relay in relays if "another relay's probe got through" in relay.log_text()]
    assert len(told) == RELAYS - 1, [relay.name for relay in told]


def test_a_relay_killed_while_it_probes_is_replaced(world, outbox):
    receiver, relays, ids = outage(world, outbox, {**SETTINGS,
                                                   "brokers": {"main": {"publishTimeout": "1s"}}})
    receiver.rules({"delay": 30})
    prober = until(lambda: next((relay for relay in relays if relay.circuit() == "half_open"), None),
                   30, "one of them probes")
    prober.kill()
    receiver.rules()
    others = [relay for relay in relays if relay is not prober]
    # Its place is kept for two publish time-outs; then a break of the others may have to end.
    receiver.wait_for_ids(ids, 60)
    until(lambda: all(relay.circuit() == "closed" for relay in others), 10, "circuits closed")
    all_settled(outbox)


def cut_off(world, receiver, outbox, settings):
    """A relay of that outbox whose way to the broker can be cut, and the proxy on it."""
    way = world.proxy(receiver)
    return world.relay(outbox, way, settings, name="cut"), way


def test_a_relay_that_alone_is_cut_off_does_not_keep_the_others_from_recovery(world, outbox):
    receiver = world.receiver()
    receiver.rules({"status": 503})
    cut, way = cut_off(world, receiver, outbox, SOON)
    well = world.relay(outbox, receiver, SOON, name="well")
    ids = insert(outbox, 1, 300)
    until(lambda: cut.circuit() != "closed" != well.circuit(), 30, "both circuits open")
    way.refuse()
    tried = len(way.attempts())
    until(lambda: len(way.attempts()) > tried, 30, "the one that is cut off has tried")
    receiver.rules()
    receiver.wait_for_ids(ids, 60)


def test_a_relay_that_the_broker_answers_is_not_stopped_by_one_failure(world, outbox):
    receiver = world.receiver()
    cut, way = cut_off(world, receiver, outbox, SOON)
    way.refuse()
    insert(outbox, 1, 20)
    until(lambda: cut.circuit() != "closed", 30, "the one that is cut off has opened")
    well = world.relay(outbox, receiver, SOON, name="well")
    receiver.wait_for_ids(insert(outbox, 100, 40), 30)
    receiver.rules({"status": 503, "times": 1})
    receiver.wait_for_ids(insert(outbox, 200, 40), 30)
    assert any(request["answer"] == 503 for request in receiver.requests())
    assert "circuit opened" not in well.log_text(), well.log_tail()


def test_older_tables_are_no_obstacle_and_doctor_names_what_they_lack(world, server):
    outbox = postgres.PostgresOutbox(server)
    outbox.sql("ALTER TABLE outbox_relay_brokers DROP COLUMN verdict, DROP COLUMN open_until, "
               "DROP COLUMN probe_by, DROP COLUMN probe_until")
    receiver, relays, ids = outage(world, outbox)
    receiver.rules()
    receiver.wait_for_ids(ids, 30)
    check = outbox.command("init", "--check")
    assert check.returncode == 5 and "ADD COLUMN IF NOT EXISTS verdict" in check.stdout, check
    assert outbox.command("init", "--apply").returncode == 0
    assert outbox.command("init", "--check").returncode == 0
    all_settled(outbox)
