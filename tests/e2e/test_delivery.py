"""The main job: another process inserts real events, the relay delivers each of them, unchanged."""

import os
import sqlite3
import uuid

from harness import checks
from harness.events import load_events
from harness.outbox import headers_of, sha
from harness.waiting import until
from harness.world import wait_processed

ROWS = 27_300  # the 273 real events, 100 times


def assert_faithful(truth, receiver, in_order):
    requests, accepted = receiver.requests(), receiver.accepted()
    for findings in (checks.lost(truth, accepted), checks.phantoms(truth, requests),
                     checks.repeats(requests), checks.differences(truth, requests),
                     checks.disorder(truth, accepted) if in_order else []):
        assert not findings, checks.report(findings)


def deliver_all(world, ordering, rows, keys):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver, {"relay": {"ordering": ordering}})
    writer = world.writer(outbox, count=rows, keys=keys)
    summary = writer.wait(120)
    assert summary["errors"] == [] and summary["rows"] == rows
    receiver.wait_for_requests(rows, 240)
    wait_processed(outbox, 30)
    return outbox, receiver, relay, writer.rows()


def test_each_of_27300_rows_arrives_once_unchanged_and_in_the_order_of_its_key(world):
    outbox, receiver, relay, truth = deliver_all(world, "key", ROWS, keys=20)
    assert_faithful(truth, receiver, in_order=True)
    until(lambda: relay.metric("published_total") == ROWS, 5, "each row is counted")
    metrics = relay.metrics()
    assert metrics.sum("publish_attempts_total") == ROWS
    assert metrics.sum("publish_failures_total") == 0
    assert metrics.sum("redelivered_total") == 0
    assert outbox.leases() == 0
    assert relay.memory_peak() < 64 << 20
    assert relay.stop() == 0


def test_each_of_27300_rows_arrives_once_unchanged_without_ordering(world):
    _, receiver, relay, truth = deliver_all(world, "none", ROWS, keys=None)
    assert_faithful(truth, receiver, in_order=False)
    assert relay.memory_peak() < 64 << 20


def test_rows_of_the_real_few_keys_keep_their_order(world):
    rows = ROWS if os.environ.get("OUTBOX_PROOF") else ROWS // 10
    _, receiver, _, truth = deliver_all(world, "key", rows, keys=None)
    assert_faithful(truth, receiver, in_order=True)


def test_the_time_and_the_order_of_the_table_are_on_the_wire(world):
    outbox, receiver = world.outbox(), world.receiver()
    ids = outbox.insert_many(300, ordering_key="one key")
    world.relay(outbox, receiver, {"relay": {"ordering": "key"}})
    receiver.wait_for_ids(ids, 20)
    assert receiver.accepted_ids() == ids
    written = outbox.value("SELECT occurred_on_utc FROM outbox_messages WHERE id = ?", ids[0])
    assert headers_of(receiver.requests()[0])["ce-time"] == written


def test_a_payload_may_be_any_bytes_and_a_row_may_leave_everything_optional_out(world):
    outbox, receiver = world.outbox(), world.receiver()
    payloads = [b"", bytes(range(256)) * 20, "text, not a blob: \u2603".encode(), b"\0" * 1000]
    ids = [outbox.insert(payload) for payload in payloads]
    ids.append(outbox.insert("text, not a blob: \u2603"))
    payloads.append("text, not a blob: \u2603".encode())
    world.relay(outbox, receiver)
    receiver.wait_for_ids(ids, 10)
    got = {request["id"]: request for request in receiver.requests()}
    for row_id, payload in zip(ids, payloads):
        assert (got[row_id]["sha"], got[row_id]["size"]) == (sha(payload), len(payload))
        fields = headers_of(got[row_id])
        assert "ce-subject" not in fields and "traceparent" not in fields
        assert fields["ce-id"] == row_id and fields["outbox-attempt"] == "1"
        assert "outbox-redelivered" not in fields


def test_a_destination_is_a_path_below_the_brokers_url_and_never_leaves_it(world):
    outbox, receiver = world.outbox(), world.receiver()
    good = {"orders": "/inbox/orders", "a/b c": "/inbox/a/b%20c",
            "x?y=1#z": "/inbox/x%3Fy=1%23z", "caf\u00e9": "/inbox/caf%C3%A9"}
    ids = {outbox.insert(destination=name): path for name, path in good.items()}
    bad = [outbox.insert(destination=name) for name in ("..", "a/../../admin", "http://evil/")]
    world.relay(outbox, receiver)
    receiver.wait_for_ids(ids, 10)
    for request in receiver.requests():
        if request["id"] in ids:
            assert decoded(request["path"]) == decoded(ids[request["id"]])
    until(lambda: outbox.unfinished() == 0, 10, lambda: f"all decided: {outbox.states()}")
    paths = [request["path"] for request in receiver.requests()]
    assert all(path.startswith("/inbox") and ".." not in path for path in paths), paths
    for row_id in bad[:2]:
        assert outbox.row(row_id)["status"] == "DeadLettered"
        assert outbox.row(row_id)["last_error"]


def decoded(path):
    """A path without the freedom to encode more than is needed."""
    segments = path.replace("%3D", "=").replace("%3d", "=").upper()
    return segments


def test_rows_inserted_by_the_sqlite3_shell_wake_the_relay_at_once(world):
    import subprocess
    import time

    outbox, receiver = world.outbox(), world.receiver()
    world.relay(outbox, receiver, {"relay": {"pollInterval": "30s"}})
    ids = []
    for _ in range(5):
        row_id = str(uuid.uuid4())
        subprocess.run(["sqlite3", outbox.path,
                        "INSERT INTO outbox_messages (id, event_type, payload)"
                        f" VALUES ('{row_id}', 'asset.created', x'7b7d')"], check=True, timeout=10)
        began = time.monotonic()
        ids.append(row_id)
        receiver.wait_for_ids(ids, 5)
        assert time.monotonic() - began < 2, "it waited for its poll"


def test_an_outbox_that_is_created_after_the_relay_started_is_waited_for(world):
    outbox, receiver = world.outbox(create=False), world.receiver()
    relay = world.relay(outbox, receiver, start=False)
    relay.start(wait=False)
    until(lambda: relay.get("/readyz")[0] == 503, 10, "not ready yet")
    assert "app.db" in relay.get("/readyz")[1]
    assert relay.get("/livez")[0] == 200 and relay.get("/startupz")[0] == 200
    assert not os.path.exists(outbox.path), "run never creates the application's file"
    outbox.make("CREATE TABLE something_else (x)")
    until(lambda: "outbox_messages" in relay.get("/readyz")[1], 10, "the missing table is named")
    ddl = world.outbox(name="model.db").query(
        "SELECT sql FROM sqlite_master WHERE name = 'outbox_messages'")[0][0]
    outbox.query(ddl)
    ids = outbox.insert_many(10)
    receiver.wait_for_ids(ids, 15)
    assert relay.get("/readyz")[0] == 200


def test_events_of_many_kinds_and_keys_are_the_input():
    events = load_events()
    assert len(events) >= 30
    assert len({event["ordering_key"] for event in events}) >= 5
    assert len({event["event_type"] for event in events}) >= 30
