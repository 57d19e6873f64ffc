"""From SQLite to a real RabbitMQ, read by the distribution's amqp-tools."""

import os
import subprocess
import sys

import pytest

from harness.waiting import until
from harness.world import wait_processed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "servers"))

import rabbitmq  # noqa: E402

NEEDED = [rabbitmq.SERVER, "/usr/bin/amqp-get"]
MISSING = [path for path in NEEDED if not os.path.exists(path)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
QUEUE = "order.placed"


@pytest.fixture(scope="module")
def broker():
    server = rabbitmq.RabbitMq()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def queue(broker):
    """An empty durable queue that the default exchange routes events of one type to."""
    tool("amqp-delete-queue", broker, "-q", QUEUE, check=False)
    tool("amqp-declare-queue", broker, "-d", "-q", QUEUE)
    return broker


def tool(name, broker, *words, check=True):
    done = subprocess.run([name, "-u", broker.url, *words], capture_output=True, timeout=30,
                          check=False)
    assert not check or done.returncode == 0, done
    return done


def taken(broker):
    """All bodies that the queue holds."""
    bodies = []
    while (got := tool("amqp-get", broker, "-q", QUEUE, check=False)).returncode == 0:
        bodies.append(got.stdout)
    assert got.returncode == 2, got
    return bodies


def insert(outbox, count, first=0):
    with outbox.connection() as database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(
            "INSERT INTO outbox_messages (id, event_type, payload) VALUES (?, ?, ?)",
            [(f"id-{n}", QUEUE, f'{{"n":{n}}}'.encode()) for n in range(first, first + count)])
        database.execute("COMMIT")


def test_each_row_arrives_once(world, queue):
    outbox = world.outbox()
    insert(outbox, 50)
    relay = world.relay(outbox, queue.url)
    wait_processed(outbox, 60)
    assert sorted(taken(queue)) == sorted(f'{{"n":{n}}}'.encode() for n in range(50))
    assert relay.metric("published_total") == 50
    assert relay.stop() == 0


def test_a_broker_that_is_killed_loses_nothing_and_gets_all_when_it_is_back(world, queue):
    outbox = world.outbox()
    relay = world.relay(outbox, queue.url)
    insert(outbox, 30)
    wait_processed(outbox, 60)
    queue.kill()
    insert(outbox, 30, first=30)
    until(lambda: relay.metric("broker_circuit_state", state="open") == 1, 30, "the circuit opens")
    queue.start()
    wait_processed(outbox, 120)
    bodies = taken(queue)
    assert set(bodies) == {f'{{"n":{n}}}'.encode() for n in range(60)}
    assert outbox.value("SELECT count(*) FROM outbox_messages WHERE status = 'DeadLettered'") == 0


def test_without_a_queue_nothing_dies_and_it_is_said_why(world, queue):
    outbox = world.outbox()
    tool("amqp-delete-queue", queue, "-q", QUEUE)
    relay = world.relay(outbox, queue.url)
    insert(outbox, 1)
    until(lambda: "NO_ROUTE" in (outbox.value("SELECT last_error FROM outbox_messages") or ""), 30,
          "the row says why")
    assert outbox.value("SELECT status FROM outbox_messages") == "Failed"
    assert relay.metric("broker_circuit_state", state="closed") == 1
    assert relay.metric("publish_failures_total", kind="misconfigured") >= 1


def test_a_kill_waits_for_what_a_crash_would_take_back(queue):
    queue.kill()
    log = queue.metadata_log()
    assert b"order.placed" in log and not rabbitmq.undecided(log)
    declaration = log[:log.rindex(b"committed")]
    assert len(rabbitmq.undecided(declaration)) == 1
    queue.start()
    assert taken(queue) == []
