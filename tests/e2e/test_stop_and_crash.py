"""A clean stop leaves nothing behind; a crash at any moment loses nothing."""

import collections
import random
import signal
import time

from harness import checks
from harness.relay import run_command
from harness.waiting import until
from harness.world import wait_processed

KILLS = 200
IN_FLIGHT = 32


def test_sigterm_with_a_full_window_and_rows_still_due_delivers_them_all_and_exits_0(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.05})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 32, "maxInFlight": 64}})
    ids = outbox.insert_many(400)
    until(lambda: len(receiver.requests()) >= 20, 10, "at work")
    assert outbox.leases() >= 32
    assert relay.stop(20) == 0
    assert sorted(receiver.accepted_ids()) == sorted(ids)
    assert outbox.states() == {"Processed": 400}
    assert outbox.leases() == 0
    last = relay.log()[-1]
    assert "stopped" in str(last).lower(), last
    outbox.check_integrity()


def test_events_that_the_application_writes_while_the_relay_drains_are_delivered_too(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.05})
    relay = world.relay(outbox, receiver)
    ids = outbox.insert_many(100)
    until(lambda: len(receiver.requests()) >= 4, 10, "at work")
    relay.signal(signal.SIGTERM)
    until(lambda: relay.get("/readyz")[0] == 503, 5, "not ready while draining")
    ids += outbox.insert_many(20)
    assert relay.wait_exit(20) == 0
    assert sorted(receiver.accepted_ids()) == sorted(ids)


def test_sigterm_with_a_broker_that_hangs_gives_the_rows_back_after_the_drain_time(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"hang": True})
    relay = world.relay(outbox, receiver, {
        "brokers": {"main": {"publishTimeout": "1500ms"}}, "relay": {"drainTimeout": "2s"},
        "breaker": {"consecutiveFailures": 0, "minimumThroughput": 1000}})
    outbox.insert_many(100)
    until(lambda: len(receiver.requests()) >= 4, 10, "at work")
    began = time.monotonic()
    assert relay.stop(10) == 0
    assert time.monotonic() - began < 2 + 1.5 + 1.5
    assert outbox.leases() == 0
    assert outbox.unfinished() == 100
    receiver.rules()
    world.relay(outbox, receiver, name="next")
    wait_processed(outbox, 20)


def test_a_second_signal_stops_at_once(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"hang": True})
    relay = world.relay(outbox, receiver, {"brokers": {"main": {"publishTimeout": "10s"}},
                                           "relay": {"leaseTerm": "40s"}})
    outbox.insert_many(100)
    until(lambda: len(receiver.requests()) >= 4, 10, "at work")
    relay.signal(signal.SIGTERM)
    first = time.monotonic()
    until(lambda: relay.get("/readyz")[0] == 503, 5, "draining")
    until(lambda: time.monotonic() > first + 1.2, 5, "no longer the same request")
    began = time.monotonic()
    relay.signal(signal.SIGTERM)
    assert relay.wait_exit(3) == 1
    assert time.monotonic() - began < 3
    receiver.rules()
    world.relay(outbox, receiver, name="next")
    wait_processed(outbox, 20)


def test_a_signal_sent_twice_at_once_is_one_request(world):
    """GNU timeout signals its child and the child's group."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.5})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 8, "maxInFlight": 8}})
    outbox.insert_many(8)
    until(lambda: len(receiver.requests()) >= 1, 10, "at work")
    relay.signal(signal.SIGTERM)
    until(lambda: relay.get("/readyz")[0] == 503, 5, "draining")
    relay.signal(signal.SIGTERM)
    assert relay.wait_exit(20) == 0
    assert outbox.all_processed() and outbox.leases() == 0


def repeats_by_kill(requests):
    """(run, run) of each two deliveries of one id; a run's number is the end of its path."""
    runs = collections.defaultdict(list)
    for request in requests:
        runs[request["id"]].append(int(request["path"].rsplit("-", 1)[1]))
    return [pair for numbers in runs.values() for pair in zip(numbers, numbers[1:])]


def test_sigkill_at_200_random_moments_loses_nothing_and_repeats_only_what_was_in_flight(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 16, "maxInFlight": IN_FLIGHT}},
                        start=False)
    writer = world.writer(outbox, count=None, pause=0.02)
    moments = random.Random(20_250_101)
    for number in range(KILLS):
        start_numbered(relay, receiver, number)
        time.sleep(moments.uniform(0.0, 0.25))  # the random moment is the point
        assert relay.running(), f"run {number} ended by itself"
        relay.kill()
    summary = writer.stop()
    start_numbered(relay, receiver, KILLS)
    wait_processed(outbox, 60)
    truth, requests = writer.rows(), receiver.requests()
    assert summary["errors"] == []
    assert len(truth) > 2_000 and len({request["path"] for request in requests}) > KILLS / 3
    assert checks.lost(truth, receiver.accepted()) == []
    assert checks.phantoms(truth, requests) == []
    assert checks.differences(truth, requests) == []
    assert checks.identity_drift([{**r, "path": ""} for r in requests]) == []
    pairs = repeats_by_kill(requests)
    assert [pair for pair in pairs if pair[0] == pair[1]] == []  # a cause: there was a kill between
    worst = collections.Counter(first for first, _ in pairs).most_common(1)
    assert not worst or worst[0][1] <= IN_FLIGHT, worst
    assert outbox.states() == {"Processed": len(truth)}  # so nobody was quarantined
    assert relay.stop() == 0
    assert outbox.leases() == 0
    outbox.check_integrity()


def start_numbered(relay, receiver, number):
    """Starts the relay with a broker path that tells this run from the others."""
    relay.environment = {"OUTBOX_RELAY__BROKERS__MAIN__URL": f"{receiver.url}-{number}"}
    relay.start(wait=False)


def test_a_row_that_takes_relays_down_with_it_is_quarantined_and_dies_alone(world):
    """Whenever the killer row is on the wire, its relay is killed, as if the row had crashed it."""
    outbox, receiver = world.outbox(), world.receiver()
    before = outbox.insert_many(20)
    killer = outbox.insert(event_type="asset.killer")
    after = outbox.insert_many(20)
    receiver.rules({"ids": [killer], "hang": True}, {"delay": 0.02})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 10, "maxInFlight": 20}},
                        start=False)
    crashes = 0

    def on_the_wire():
        return sum(request["id"] == killer for request in receiver.requests())

    while crashes < 15 and outbox.row(killer)["status"] != "DeadLettered":
        relay.start(wait=False)
        until(lambda: on_the_wire() > crashes or outbox.row(killer)["status"] == "DeadLettered",
              15, lambda: f"the killer row strikes or is dead, after {crashes} crashes")
        if on_the_wire() > crashes:
            crashes += 1
            relay.kill()
    assert 5 <= crashes <= 8, crashes
    row = outbox.row(killer)
    assert (row["status"], row["dead_letter_reason"]) == ("DeadLettered", "crashed")
    if not relay.running():
        relay.start()
    receiver.wait_for_ids(before + after, 20)
    until(lambda: outbox.unfinished() == 0, 10, lambda: f"{outbox.states()}")
    assert outbox.states() == {"Processed": 40, "DeadLettered": 1}
    assert killer not in receiver.accepted_ids()


def stopped_within(relay, seconds):
    code = relay.stop(seconds)
    assert code == 0, relay.log()[-3:]
    return [entry for entry in relay.log() if entry["msg"] == "stopped"][-1]


def test_a_relay_whose_database_is_missing_stops_at_once(world):
    outbox, receiver = world.outbox(create=False), world.receiver()
    relay = world.relay(outbox, receiver, start=False)
    relay.start(wait=False)
    until(lambda: relay.get("/readyz")[0] == 503, 10, "up, and not ready")
    last = stopped_within(relay, 4)
    assert "left_pending" not in last


def test_a_relay_whose_table_waits_to_be_adopted_stops_at_once_and_counts_the_rows(world):
    outbox, receiver = world.outbox(), world.receiver()
    with outbox.connection() as database:
        database.execute("CREATE TABLE Events (Id TEXT PRIMARY KEY NOT NULL, Type TEXT NOT NULL,"
                         " Content TEXT NOT NULL, OccurredOnUtc TEXT NOT NULL,"
                         " ProcessedOnUtc TEXT, Error TEXT)")
        database.execute("INSERT INTO Events VALUES ('a', 't', '{}', '2026-01-01 00:00:00',"
                         " NULL, NULL)")
    relay = world.relay(outbox, receiver, {"store": {"table": "Events", "preset": "dotnet"}},
                        start=False)
    relay.start(wait=False)
    until(lambda: "adopt" in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
    assert stopped_within(relay, 4)["left_pending"] == 1
    assert receiver.requests() == []


def test_a_relay_with_an_isolated_circuit_stops_at_once_and_counts_the_rows(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver)
    assert run_command("broker", "isolate", "--config", relay.config_path).returncode == 0
    relay.wait_circuit("isolated", 5)
    outbox.insert_many(7)
    assert stopped_within(relay, 4)["left_pending"] == 7
    assert receiver.requests() == []
