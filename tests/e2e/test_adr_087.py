"""profile: adr-087. Attempts burn while the circuit is open, and rows die by the ladder."""

import time

from harness.waiting import until

ATTEMPTS = 5
FACTOR = 2
BASE = 0.4
SPREAD = 0.2  # proportional jitter
POLL = 0.2
THRESHOLD = 10
ROWS = 60


def ladder():
    """An independent model: the waits after each failure but the last, without jitter."""
    return [BASE * FACTOR ** (number - 1) for number in range(1, ATTEMPTS)]


def run_outage(world):
    outbox, receiver = world.outbox(), world.receiver()
    proxy = world.proxy(receiver)
    proxy.refuse()
    relay = world.relay(outbox, proxy, {
        "profile": "adr-087",
        "retry": {"baseDelay": f"{int(BASE * 1000)}ms"},
        "relay": {"pollInterval": f"{int(POLL * 1000)}ms"},
        "breaker": {"breakDuration": "60s"},
    })
    outbox.insert_many(ROWS)
    return outbox, proxy, relay


def failed_at_least(outbox, count):
    return outbox.value("SELECT count(*) FROM outbox_messages WHERE retry_count >= ?", count)


def test_under_the_recorded_profile_an_outage_burns_every_attempt_and_rows_die(world):
    outbox, proxy, relay = run_outage(world)
    until(lambda: failed_at_least(outbox, 1) == ROWS, 10, "each row failed once", poll=0.01)
    began = time.monotonic()
    until(lambda: outbox.states() == {"DeadLettered": ROWS}, 30,
          lambda: f"all dead: {dict(outbox.states())}", poll=0.02)
    took = time.monotonic() - began
    assert took >= sum(ladder()) * (1 - SPREAD) - 0.5
    assert took <= sum(ladder()) * (1 + SPREAD) + ATTEMPTS * 2 * POLL + 1

    assert outbox.query("SELECT DISTINCT retry_count, dead_letter_reason FROM outbox_messages") == [
        (ATTEMPTS, "attempts_exhausted")]
    metrics = relay.metrics()
    wire = len(proxy.attempts())
    assert metrics.sum("publish_attempts_total") == wire == metrics.sum("publish_failures_total")
    # It takes the threshold to open, and then nothing is sent but what had left already.
    assert THRESHOLD <= wire <= THRESHOLD + 50
    assert wire + metrics.sum("broker_circuit_open_total") == ROWS * ATTEMPTS
    assert metrics.sum("broker_fault_total", source="publish") == ROWS
    assert metrics.sum("dead_lettered_total", reason="attempts_exhausted") == ROWS
    assert metrics.sum("broker_circuit_transitions_total", to="open") == 1
