"""The broker is gone: the circuit opens, few probes go out, every attempt is accounted for."""

import time

import pytest

from harness import checks
from harness.relay import merged, run_command
from harness.waiting import holds, until
from harness.world import wait_processed

BREAK = 2.0
TIMEOUT = 1.0
SETTINGS = {
    "relay": {"batchSize": 50, "maxInFlight": 100},
    "breaker": {"breakDuration": "2s"},
    # So long that a row is only delivered in time if the recovery makes it due.
    "retry": {"baseDelay": "2m", "maxDelay": "5m", "jitter": "none"},
}
BACKLOG = 500


def refuse(proxy):
    proxy.refuse()


def swallow(proxy):
    proxy.black_hole()


def close(proxy):
    proxy.close_listener()


def mend(proxy, breakage):
    if breakage is close:
        proxy.open_listener()
    elif breakage is swallow:
        proxy.let_pass()
        proxy.drop_connections()
    else:
        proxy.let_pass()


class Outage:
    """A healthy start, then a backlog and a broken broker."""

    def __init__(self, world, breakage, settings=None):
        self.breakage = breakage
        self.outbox, self.receiver = world.outbox(), world.receiver()
        self.proxy = world.proxy(self.receiver)
        self.relay = world.relay(self.outbox, self.proxy, merged(SETTINGS, settings or {}))
        self.healthy = self.outbox.insert_many(20)
        wait_processed(self.outbox, 10)
        breakage(self.proxy)
        self.began = time.monotonic()
        self.ids = self.outbox.insert_many(BACKLOG, event_type="asset.moved")

    def wire_failures(self):
        """Attempts that reached the proxy and failed."""
        return [entry for entry in self.proxy.attempts() if entry["mode"] != "pass"]

    def half_opens(self):
        return self.relay.metric("broker_circuit_transitions_total", to="half_open")

    def mend(self):
        mend(self.proxy, self.breakage)
        self.mended = time.monotonic()

    def first_delivery(self):
        """Seconds from the mending to the first message that got through."""
        wanted = set(self.ids)
        until(lambda: any(r["id"] in wanted for r in self.receiver.accepted()), 15,
              "a first delivery", poll=0.01)
        return next(r["t"] for r in self.receiver.accepted() if r["id"] in wanted) - self.mended


@pytest.mark.parametrize("breakage", [refuse, swallow, close], ids=lambda value: value.__name__)
def test_an_outage_opens_the_circuit_once_costs_few_probes_and_is_fully_accounted_for(
        world, breakage):
    outage = Outage(world, breakage)
    outbox, relay, proxy = outage.outbox, outage.relay, outage.proxy
    relay.wait_circuit("open", 10)
    opened = time.monotonic()
    assert relay.get("/livez")[0] == 200 and relay.get("/readyz")[0] == 200
    assert "open" in relay.get("/readyz")[1]
    until(lambda: outage.half_opens() >= 3, 30, "three probes")
    relay.wait_circuit("open", 5)
    assert relay.metric("broker_up") == 0
    outage.mend()
    assert outage.first_delivery() <= BREAK * 1.2 + TIMEOUT + 0.5
    wait_processed(outbox, 10)
    relay.wait_circuit("closed", 5)
    outage_seconds = outage.mended - opened

    metrics = relay.metrics()
    half_opens = metrics.sum("broker_circuit_transitions_total", to="half_open")
    assert metrics.sum("broker_circuit_transitions_total", to="closed") == 1
    # One outage, one opening; each failed probe re-opens and the last one succeeds.
    assert metrics.sum("broker_circuit_transitions_total", to="open") == half_opens
    assert half_opens <= outage_seconds / (BREAK * 0.8) + 2
    failures = metrics.sum("publish_failures_total")
    short_circuited = metrics.sum("broker_circuit_open_total")
    assert metrics.sum("broker_circuit_open_total", event_type="asset.moved") == short_circuited
    assert outbox.retry_sum() == failures + short_circuited
    assert metrics.sum("publish_failures_total", kind="transport") == failures
    assert metrics.sum("publish_attempts_total") == 20 + BACKLOG + failures
    assert metrics.sum("published_total") == 20 + BACKLOG
    if breakage is not close:
        check_the_wire(outage, opened, half_opens, failures)
    assert metrics.sum("dead_lettered_total") == 0
    check_the_log(relay, half_opens)
    if breakage is not swallow:
        assert checks.repeats(outage.receiver.accepted()) == []
    assert checks.identity_drift(outage.receiver.requests()) == []


def check_the_wire(outage, opened, half_opens, failures):
    wire = outage.wire_failures()
    assert len(wire) == failures
    assert len(outage.proxy.attempts()) == outage.relay.metric("publish_attempts_total")
    probes = [entry["t"] for entry in wire if entry["t"] > opened + 0.1]
    assert half_opens - 1 - 1 <= len(probes) <= half_opens
    gaps = [later - earlier for earlier, later in zip(probes, probes[1:])]
    assert all(gap >= BREAK * 0.8 - 0.05 for gap in gaps), gaps


def check_the_log(relay, half_opens):
    """One line per transition and per probe, never one per message."""
    entries = relay.log()
    circuit = [entry for entry in entries if "circuit" in str(entry).lower()]
    opened = [entry for entry in circuit
              if entry.get("from") == "closed" and entry.get("to") == "open"]
    closed = [entry for entry in circuit if entry.get("to") == "closed"]
    probes = [entry for entry in entries if "probe" in str(entry.get("msg", "")).lower()]
    assert len(opened) == 1 and len(closed) == 1, circuit
    assert len(probes) == half_opens, probes
    assert len(entries) < 30 + 4 * half_opens, f"{len(entries)} lines for {BACKLOG} messages"


def test_a_503_with_retry_after_is_waited_for_longer_than_a_break(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 503, "headers": {"Retry-After": "5"}})
    relay = world.relay(outbox, receiver)
    ids = outbox.insert_many(40)
    relay.wait_circuit("open", 40)  # each round of answers is waited out before the next one
    before = len(receiver.requests())
    asked = receiver.requests()[-1]["t"]
    receiver.rules()
    receiver.wait_for_ids(ids, 20)
    assert receiver.requests()[before]["t"] - asked >= 4.9
    assert relay.metric("publish_failures_total", kind="throttled") == before
    assert outbox.states() == {"Processed": 40}


def test_an_answer_that_is_lost_is_repeated_with_the_same_id_and_marked(world):
    outbox, receiver = world.outbox(), world.receiver()
    proxy = world.proxy(receiver)
    relay = world.relay(outbox, proxy, {"retry": {"baseDelay": "100ms", "maxDelay": "1s"},
                                        "breaker": {"consecutiveFailures": 0}})
    proxy.cut_answers(after=10)
    row_id = outbox.insert()
    receiver.wait_for_requests(1, 5)
    proxy.let_pass()
    wait_processed(outbox, 10)
    first, *later = receiver.requests()
    assert later and {request["id"] for request in later} == {row_id}
    assert "outbox-redelivered" not in dict(first["headers"])
    assert dict(later[-1]["headers"])["outbox-redelivered"] == "true"
    assert int(dict(later[-1]["headers"])["outbox-attempt"]) == len(later) + 1
    assert checks.identity_drift(receiver.requests()) == []
    assert relay.metric("redelivered_total") == len(later)


def test_a_failing_row_climbs_its_ladder_and_the_others_are_delivered_beside_it(world):
    """One row answers 500 while others are confirmed: the ladder counts, and ends."""
    outbox, receiver = world.outbox(), world.receiver()
    # Neighbours that are confirmed before the bad row's first answer: without them it is an outage.
    sent = outbox.insert_many(20)
    bad = outbox.insert(event_type="asset.cursed")
    receiver.rules({"ids": [bad], "status": 500, "delay": 0.1})
    relay = world.relay(outbox, receiver, {
        "retry": {"maxAttempts": 3, "baseDelay": "300ms", "jitter": "none",
                  "redeliveryIntervals": ["1s"]}})

    def dead():
        sent.extend(outbox.insert_many(2))
        return outbox.row(bad)["status"] == "DeadLettered"

    until(dead, 20, lambda: f"the ladder's end: {outbox.row(bad)}", poll=0.1)
    row = outbox.row(bad)
    assert row["dead_letter_reason"] == "attempts_exhausted" and row["retry_count"] == 4
    assert "500" in row["last_error"]
    tries = [request["t"] for request in receiver.requests() if request["id"] == bad]
    waits = [later - earlier for earlier, later in zip(tries, tries[1:])]
    assert len(tries) == 4
    # Each from one request to the next: the answer's delay, the ladder's wait, a little slack.
    for wait, due in zip(waits, (0.4, 0.7, 1.1)):
        assert due * 0.85 <= wait <= due * 1.15 + 0.3, waits
    receiver.wait_for_ids(sent, 10)
    until(lambda: relay.metric("dead_lettered_total", reason="attempts_exhausted") == 1, 5,
          "it is counted")
    assert relay.metric("broker_fault_total", source="publish", event_type="asset.cursed") == 1
    assert relay.circuit() == "closed"


def test_an_operator_isolates_the_broker_and_that_survives_a_restart(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver, {"relay": {"drainTimeout": "1s"}})
    outbox.insert_many(5)
    wait_processed(outbox, 10)
    command = ["--config", relay.config_path]
    done = run_command("broker", "isolate", "--reason", "the receiver moves", *command)
    assert done.returncode == 0, done.stderr
    relay.wait_circuit("isolated", 5)
    told = [entry for entry in relay.log() if entry.get("to") == "isolated"]
    assert [entry["reason"] for entry in told] == ["the receiver moves"]
    ids = outbox.insert_many(20)
    holds(lambda: len(receiver.requests()) == 5, 1, "nothing is sent")
    assert relay.stop() == 0
    relay.start()
    relay.wait_circuit("isolated", 5)
    holds(lambda: len(receiver.requests()) == 5, 1, "nothing is sent after a restart either")
    assert outbox.retry_sum() == 0
    done = run_command("broker", "close", *command)
    assert done.returncode == 0, done.stderr
    receiver.wait_for_ids(ids, 10)
    relay.wait_circuit("closed", 5)


def test_a_circuit_is_probed_when_every_key_waits_for_a_head_that_has_failed(world):
    """No fresh row may go then: the probe has to be one of the heads."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 500})
    relay = world.relay(outbox, receiver, merged(SETTINGS, {
        "relay": {"ordering": "key"}, "breaker": {"breakDuration": "500ms"}}))
    ids = [row_id for key in ("a", "b", "c", "d", "e", "f")
           for row_id in outbox.insert_many(20, ordering_key=key)]
    relay.wait_circuit("open", 10)
    until(lambda: relay.metric("broker_circuit_transitions_total", to="half_open") >= 2, 10,
          "two probes")
    receiver.rules()
    receiver.wait_for_ids(ids, 10)
    wait_processed(outbox, 5)
