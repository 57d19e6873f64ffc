"""Outboxes that were there before the relay: their tables are drained as they are."""

import contextlib
import datetime
import json
import multiprocessing
import os
import sqlite3
import time
import urllib.request
import uuid
from urllib.parse import unquote

import pytest

from harness.events import load_events
from harness.outbox import Outbox, headers_of, sha
from harness.process import die_with_parent
from harness.relay import run_command
from harness.waiting import until

EVENTS = load_events()


def payload(number):
    return EVENTS[number % len(EVENTS)]["payload"]


def text_of(number):
    return json.dumps(payload(number), ensure_ascii=False)


def utc(minutes_ago=0, form="%Y-%m-%d %H:%M:%S.%f"):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now - datetime.timedelta(minutes=minutes_ago)).strftime(form)


class Shape:
    """A table as somebody's library makes it, and how to tell that a row of it was sent."""

    def __init__(self, preset, table, create, insert, row, done, settings=None, wire=None):
        self.preset, self.table, self.create, self.insert = preset, table, create, insert
        self.row, self.done, self.settings = row, done, settings or {}
        # From a row to (id, type, key, body) on the wire.
        self.wire = wire


def dotnet_guid(number):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(number))).upper()


SHAPES = {
    # As EF Core's SQLite provider writes Guid, DateTime and string.
    "ef core with a status": Shape(
        "dotnet", "OutboxMessages",
        'CREATE TABLE "OutboxMessages" ("Id" TEXT NOT NULL CONSTRAINT "PK_OutboxMessages"'
        ' PRIMARY KEY, "Type" TEXT NOT NULL, "Content" TEXT NOT NULL, "OccurredOnUtc" TEXT NOT'
        ' NULL, "ProcessedOnUtc" TEXT NULL, "Error" TEXT NULL, "RetryCount" INTEGER NOT NULL,'
        ' "Status" TEXT NOT NULL)',
        'INSERT INTO "OutboxMessages" VALUES (?, ?, ?, ?, NULL, NULL, 0, \'Pending\')',
        lambda n: (dotnet_guid(n), "Orders.OrderPlaced", text_of(n), utc() + "7"),
        "Status = 'Processed' AND ProcessedOnUtc LIKE '____-__-__ __:__:__.___' AND Error IS NULL"
        " AND RetryCount = 0",
        wire=lambda row: (row[0], row[1], None, row[2])),
    "ef core without a status": Shape(
        "dotnet", "OutboxMessages",
        'CREATE TABLE "OutboxMessages" ("Id" TEXT NOT NULL PRIMARY KEY, "EventType" TEXT NOT NULL,'
        ' "Payload" TEXT NOT NULL, "OccurredOn" TEXT NOT NULL, "ProcessedOn" TEXT NULL,'
        ' "LastError" TEXT NULL, "OrderingKey" TEXT NULL)',
        'INSERT INTO "OutboxMessages" VALUES (?, ?, ?, ?, NULL, NULL, ?)',
        lambda n: (dotnet_guid(n), "OrderPlaced", text_of(n), utc(), f"order-{n % 7}"),
        "ProcessedOn IS NOT NULL",
        wire=lambda row: (row[0], row[1], row[4], row[2])),
    "ef core with numbers for states, bytes for ids and ticks for times": Shape(
        "dotnet", "Outbox",
        'CREATE TABLE "Outbox" ("Id" BLOB NOT NULL PRIMARY KEY, "Type" TEXT NOT NULL, "Data" BLOB'
        ' NOT NULL, "CreatedAt" INTEGER NOT NULL, "ProcessedAt" INTEGER, "Attempts" INTEGER NOT'
        ' NULL DEFAULT 0, "State" INTEGER NOT NULL DEFAULT 0)',
        'INSERT INTO "Outbox" ("Id", "Type", "Data", "CreatedAt") VALUES (?, ?, ?, ?)',
        lambda n: (uuid.UUID(dotnet_guid(n)).bytes_le, "OrderPlaced", text_of(n).encode(),
                   time.time_ns() // 100 + 621_355_968_000_000_000),
        "State = 2 AND ProcessedAt > 638000000000000000",
        {"store": {"states": {"pending": "0", "failed": "1", "processed": "2"},
                   "times": "ticks"}},
        wire=lambda row: (str(uuid.UUID(bytes_le=row[0])), row[1], None, row[2].decode())),
    "debezium": Shape(
        "debezium", "outboxevent",
        "CREATE TABLE outboxevent (id VARCHAR(36) NOT NULL PRIMARY KEY, aggregatetype"
        " VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL,"
        " payload TEXT)",
        "INSERT INTO outboxevent VALUES (?, ?, ?, ?, ?)",
        lambda n: (str(uuid.uuid4()), "order", f"order-{n % 5}", "OrderCreated", text_of(n)),
        "id IN (SELECT row_key FROM outbox_relay_rows WHERE outbox = 'outboxevent'"
        " AND state = 'Processed')",
        wire=lambda row: (row[0], row[3], row[2], row[4])),
    "cap": Shape(
        "cap", "cap.published",
        'CREATE TABLE "cap.published" ("Id" BIGINT NOT NULL PRIMARY KEY, "Version" TEXT, "Name"'
        ' TEXT NOT NULL, "Content" TEXT, "Retries" INTEGER, "Added" TEXT NOT NULL, "ExpiresAt"'
        ' TEXT, "StatusName" TEXT NOT NULL)',
        'INSERT INTO "cap.published" VALUES (?, \'v1\', ?, ?, 0, ?, NULL, \'Scheduled\')',
        lambda n: (7_000_000_000_000_000_000 + n, "order.placed", json.dumps(
            {"Headers": {"cap-msg-id": str(n), "cap-msg-name": "order.placed",
                         "cap-callback-name": None, "cap-senttime": "11/30/2026 18:00:00"},
             "Value": payload(n)}, ensure_ascii=False), utc()),
        "StatusName = 'Succeeded'",
        wire=lambda row: (str(row[0]), row[1], None, None)),
    "spring modulith": Shape(
        "spring-modulith", "event_publication",
        "CREATE TABLE event_publication (id VARCHAR(36) NOT NULL PRIMARY KEY, listener_id"
        " VARCHAR(512) NOT NULL, event_type VARCHAR(512) NOT NULL, serialized_event VARCHAR(4000)"
        " NOT NULL, publication_date TIMESTAMP NOT NULL, completion_date TIMESTAMP)",
        "INSERT INTO event_publication VALUES (?, ?, ?, ?, ?, NULL)",
        lambda n: (str(uuid.uuid4()), "inventory", "example.OrderCompleted", text_of(n), utc()),
        "completion_date IS NOT NULL",
        wire=lambda row: (row[0], row[2], None, row[3])),
    "names that nobody expected": Shape(
        "dotnet", 'the "Order" table',
        'CREATE TABLE "the ""Order"" table" ("select" INTEGER PRIMARY KEY, "rowid" TEXT NOT NULL'
        ' UNIQUE, "event type" TEXT NOT NULL, "from [x]" BLOB NOT NULL, "WHERE" TEXT, "It\'s '
        'done" INTEGER NOT NULL DEFAULT 0)',
        'INSERT INTO "the ""Order"" table" ("rowid", "event type", "from [x]", "WHERE")'
        " VALUES (?, ?, ?, ?)",
        lambda n: (f"id {n}", "Order.Placed", text_of(n).encode(), f"key {n % 3}"),
        '"It\'s done" = 1',
        {"store": {"columns": {"id": "rowid", "eventType": "event type", "payload": "from [x]",
                               "orderingKey": "where", "status": "it's done"},
                   "states": {"pending": "0", "failed": "-1", "processed": "1"}}},
        wire=lambda row: (row[0], row[1], row[3], row[2].decode())),
}


class ForeignOutbox(Outbox):
    def __init__(self, folder, shape):
        super().__init__(folder, create=False)
        self.shape = shape
        self.make(shape.create)

    def fill(self, count, first=0):
        rows = [self.shape.row(number) for number in range(first, first + count)]
        with self.connection() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(self.shape.insert, rows)
            database.execute("COMMIT")
        return rows

    def schema(self):
        return self.query("SELECT name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE"
                          " 'outbox_relay_%' ORDER BY name")

    def table(self):
        return '"' + self.shape.table.replace('"', '""') + '"'

    def done(self, condition=None):
        return self.value(
            f"SELECT count(*) FROM {self.table()} WHERE {condition or self.shape.done}")


def settings_of(shape, **relay):
    store = {"table": shape.table, "preset": shape.preset, **shape.settings.get("store", {})}
    return {"store": store, **({"relay": relay} if relay else {})}


def store_flags(outbox):
    shape = outbox.shape
    sets = []
    for group in ("columns", "states"):
        chosen = shape.settings.get("store", {}).get(group)
        if chosen:
            sets += ["--set", f"store.{group}={json.dumps(chosen)}"]
    if "times" in shape.settings.get("store", {}):
        sets += ["--set", "store.times=" + shape.settings["store"]["times"]]
    return ["--store", outbox.url, "--table", shape.table, "--preset", shape.preset, *sets]


def adopt(outbox, *words):
    return run_command("adopt", *store_flags(outbox), *words)


@pytest.mark.parametrize("name", SHAPES)
def test_a_foreign_table_is_drained_and_nothing_of_it_changes_but_the_mapped_state(world, name):
    shape = SHAPES[name]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    before = outbox.schema()
    rows = outbox.fill(200)
    done = adopt(outbox, "--all")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "200 rows to be sent, 0 skipped\n"
    world.relay(outbox, receiver, settings_of(shape, ordering="key"))
    rows += outbox.fill(100, first=200)
    receiver.wait_for_requests(300, 60)
    until(lambda: outbox.done() == 300, 20, "all rows are marked as the table marks them")
    requests = {unquote(request["id"]): request for request in receiver.requests()}
    assert len(receiver.requests()) == len(requests) == 300
    for row in rows:
        row_id, event_type, key, body = shape.wire(row)
        headers = headers_of(requests[row_id])
        assert headers["ce-type"] == event_type
        if key is not None:
            assert unquote(headers["ce-subject"]) == key
        if body is not None:
            assert requests[row_id]["sha"] == sha(body.encode())
    assert outbox.schema() == before, "the table and its indexes are as they were"
    assert outbox.leases() == 0


def test_a_row_that_fails_and_dies_shows_in_the_table_what_its_columns_can_show(world):
    shape = SHAPES["ef core with a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    receiver.rules({"status": 400})
    outbox.fill(1)
    world.relay(outbox, receiver, settings_of(shape))
    until(lambda: outbox.value("SELECT Status FROM OutboxMessages") == "Failed", 20, "it failed")
    assert "400" in outbox.value("SELECT Error FROM OutboxMessages")
    assert outbox.value("SELECT state FROM outbox_relay_rows") == "DeadLettered"
    listed = run_command("dead-letters", "list", "-o", "json", "--store", outbox.url, "--table",
                         shape.table, "--preset", shape.preset)
    assert outbox.value("SELECT Id FROM OutboxMessages") in listed.stdout, listed.stderr
    receiver.rules({"status": 204})
    redriven = run_command("dead-letters", "redrive", "--yes", "--reason", "mended", "--store",
                           outbox.url, "--table", shape.table, "--preset", shape.preset)
    assert redriven.returncode == 0, redriven.stderr
    until(lambda: outbox.done() == 1, 20, "it is processed")


# --- beginning ---------------------------------------------------------------------------------


def test_old_rows_of_a_foreign_table_wait_until_somebody_says_what_becomes_of_them(world):
    shape = SHAPES["ef core with a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    with outbox.connection() as database:
        for number in range(10):
            row = list(shape.row(number))
            row[3] = utc(minutes_ago=600 - 62 * number)
            database.execute(shape.insert, row)
    relay = world.relay(outbox, receiver, settings_of(shape), start=False)
    relay.start(wait=False)
    until(lambda: relay.get("/readyz")[0] == 503 and "adopt" in relay.get("/readyz")[1], 20,
          "the relay says that it waits")
    assert receiver.requests() == []

    counted = adopt(outbox, "--skip-older", "--dry-run")
    assert counted.stdout == "1 row would be sent, 9 skipped\n", counted.stderr
    assert relay.get("/readyz")[0] == 503
    done = adopt(outbox, "--since", utc(minutes_ago=210, form="%Y-%m-%dT%H:%M:%SZ"), "--reason",
                 "older ones were sent by hand")
    assert done.stdout == "3 rows to be sent, 7 skipped\n", done.stderr
    receiver.wait_for_requests(3, 20)
    outbox.fill(1, first=50)
    receiver.wait_for_requests(4, 20)
    until(lambda: outbox.done() == 4, 20, "all that was to be sent is processed")
    assert outbox.value("SELECT count(*) FROM OutboxMessages WHERE Status = 'Pending'") == 7
    assert "by hand" in outbox.value(
        "SELECT reason FROM outbox_relay_audit WHERE action = 'adopt'")

    everything = adopt(outbox, "--all")
    assert everything.stdout == "7 rows to be sent, 0 skipped\n", everything.stderr
    receiver.wait_for_requests(11, 20)
    until(lambda: outbox.done() == 11, 20, "all are processed")


def test_a_table_can_be_looked_at_before_any_relay_has_begun_on_it(world):
    shape = SHAPES["ef core with a status"]
    outbox = ForeignOutbox(world.folder, shape)
    outbox.fill(3)
    schema = outbox.query("SELECT sql FROM sqlite_schema")
    flags = store_flags(outbox)
    found = run_command("messages", "find", *flags, "-o", "jsonl")
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 3, found.stderr
    for words in (["dead-letters", "list"], ["status"], ["messages", "show", dotnet_guid(1)]):
        done = run_command(*words, *flags)
        assert done.returncode == 0, (words, done)
    waiting = run_command("wait", "--for", "drained", "--timeout", "1s", *flags)
    assert waiting.returncode == 1 and "3 events" in waiting.stderr, waiting
    assert outbox.query("SELECT sql FROM sqlite_schema") == schema, "nothing was made"
    off = run_command("pause", *flags, "--set", "store.createRelayTables=false")
    assert off.returncode != 0 and "createRelayTables is off" in off.stderr
    assert run_command("pause", *flags).returncode == 0, "that has to be written down"
    assert "paused" in run_command("status", *flags).stdout.lower()


def test_init_makes_nothing_beside_a_table_that_is_not_there(world):
    outbox = ForeignOutbox(world.folder, SHAPES["ef core with a status"])
    schema = outbox.query("SELECT sql FROM sqlite_schema")
    typo = run_command("init", "--apply", "--store", outbox.url, "--preset", "dotnet", "--table",
                       "OutboxMesages")
    assert typo.returncode == 1 and "no table OutboxMesages" in typo.stderr, typo
    assert outbox.query("SELECT sql FROM sqlite_schema") == schema
    path = os.path.join(world.folder, "nowhere.db")
    nowhere = run_command("init", "--apply", "--store", "sqlite://" + path, "--preset", "dotnet")
    assert nowhere.returncode == 1 and not os.path.exists(path), nowhere


def test_adopt_needs_to_be_told_one_thing(world):
    outbox = ForeignOutbox(world.folder, SHAPES["debezium"])
    for words in ([], ["--all", "--skip-older"], ["--since", "yesterday"],
                  ["--all", "--unknown", "skip"]):
        assert adopt(outbox, *words).returncode == 2, words
    assert adopt(outbox, "--since", "30d", "--dry-run").returncode == 0


def test_a_vacuum_changes_no_row_for_another(world):
    """A table whose key is no number has its rows renumbered."""
    shape = SHAPES["ef core without a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    receiver.rules({"status": 503})
    outbox.fill(300)
    with outbox.connection() as database:
        database.execute("DELETE FROM OutboxMessages WHERE rowid % 3 = 0")
    relay = world.relay(outbox, receiver, settings_of(shape))
    until(lambda: relay.metric("broker_circuit_state", state="open") == 1, 20, "it opened")
    with outbox.connection() as database:
        database.execute("VACUUM")
    receiver.rules({"status": 204})
    until(lambda: outbox.done() == 200, 60, "all are processed")
    ids = {row[0] for row in outbox.query("SELECT Id FROM OutboxMessages")}
    assert set(receiver.accepted_ids()) == ids


# --- detection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.settings])
def test_detection_proposes_settings_that_work_and_writes_nothing(world, name):
    shape = SHAPES[name]
    outbox = ForeignOutbox(world.folder, shape)
    rows = outbox.fill(5)
    with outbox.connection() as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = outbox.query("SELECT name, sql FROM sqlite_schema")
    version = outbox.value("PRAGMA schema_version")
    found = run_command("mapping", "detect", "--store", outbox.url)
    assert found.returncode == 0, found.stderr
    assert f"preset: {shape.preset}" in found.stdout
    assert "rows that would be sent: 5" in found.stdout
    assert found.stdout.count("#   - id ") == 3
    assert str(shape.wire(rows[0])[0]) in found.stdout
    assert outbox.query("SELECT name, sql FROM sqlite_schema") == before
    assert outbox.value("PRAGMA schema_version") == version
    path = os.path.join(world.folder, "proposed.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(found.stdout + "brokers: { main: { url: 'null:' } }\n")
    checked = run_command("validate", path)
    assert checked.returncode == 0, checked.stderr


def test_detection_says_what_is_missing(world):
    outbox = Outbox(world.folder, create=False)
    outbox.make("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)")
    nothing = run_command("mapping", "detect", "--store", outbox.url)
    assert nothing.returncode == 4 and "looks like an outbox" in nothing.stderr
    one = run_command("mapping", "detect", "--store", outbox.url, "--table", "things")
    assert one.returncode == 1 and "it has id, name" in one.stderr


def test_detection_says_why_a_table_that_looks_right_can_t_be_used(world):
    outbox = Outbox(world.folder, create=False)
    outbox.make(SHAPES["ef core with a status"].create)
    outbox.query("PRAGMA journal_mode=DELETE")
    found = run_command("mapping", "detect", "--store", outbox.url)
    assert found.returncode == 1 and "PRAGMA journal_mode=WAL" in found.stderr, found
    outbox.make("CREATE TABLE parcels (number TEXT PRIMARY KEY, kind TEXT, body TEXT)")
    found = run_command("mapping", "detect", "--store", outbox.url, "--table", "parcels")
    assert found.returncode == 1 and "it has number, kind, body" in found.stderr, found
    assert "mapping detect" not in found.stderr, "that is what was just run"


def test_a_table_that_can_t_be_used_is_refused_with_what_to_do(world):
    receiver = world.receiver()
    for number, (create, settings, said) in enumerate([
        ("CREATE TABLE o (Id TEXT PRIMARY KEY, Type TEXT, Payload TEXT)",
         {"preset": "dotnet"}, "processed rows"),
        ("CREATE TABLE o (Id TEXT, Type TEXT, Payload TEXT, ProcessedOn TEXT)",
         {"preset": "dotnet"}, "CREATE UNIQUE INDEX"),
        ("CREATE TABLE o (Id TEXT PRIMARY KEY, Type TEXT, Payload TEXT, ProcessedOn TEXT)"
         " WITHOUT ROWID", {"preset": "dotnet"}, "WITHOUT ROWID"),
        ("CREATE TABLE o (Id TEXT PRIMARY KEY, Type TEXT, Payload TEXT, Status INTEGER)",
         {"preset": "dotnet"}, "store.states"),
        ("CREATE TABLE o (Id TEXT PRIMARY KEY, Type TEXT, Payload TEXT, Status TEXT)",
         {"preset": "dotnet", "columns": {"orderingKey": "CustomerId"}}, "CustomerId"),
        ("CREATE VIEW o AS SELECT 1 AS Id, 2 AS Type, 3 AS Payload, 4 AS Status",
         {"preset": "dotnet"}, "view"),
    ]):
        outbox = Outbox(world.folder, name=f"bad{number}.db", create=False)
        outbox.make(create)
        relay = world.relay(outbox, receiver, {"store": {"table": "o", **settings}},
                            name=f"relay{number}", start=False)
        relay.start(wait=False)
        until(lambda: said in relay.get("/readyz")[1], 20, f"the relay says: {said}")
        relay.stop()


# --- taking over from another relay ------------------------------------------------------------


def incumbent(path, url, stop, sent):
    """What a small service does: each second Pending and Failed rows, in order, no lease."""
    die_with_parent()
    database = sqlite3.connect(path, isolation_level=None, timeout=10)
    while not stop.is_set():
        rows = database.execute(
            "SELECT Id, Type, Content FROM OutboxMessages WHERE Status IN ('Pending', 'Failed')"
            " ORDER BY OccurredOnUtc LIMIT 50").fetchall()
        for row_id, event_type, content in rows:
            try:
                request = urllib.request.Request(
                    url, data=content.encode(), method="POST",
                    headers={"ce-id": row_id, "ce-type": event_type, "ce-specversion": "1.0",
                             "ce-source": "/incumbent", "Idempotency-Key": row_id})
                urllib.request.urlopen(request, timeout=5).read()
                database.execute(
                    "UPDATE OutboxMessages SET Status = 'Processed', ProcessedOnUtc = ?,"
                    " Error = NULL WHERE Id = ?", (utc(), row_id))
                sent.value += 1
            except OSError as error:
                database.execute(
                    "UPDATE OutboxMessages SET Status = 'Failed', RetryCount = RetryCount + 1,"
                    " Error = ? WHERE Id = ?", (str(error), row_id))
        if not rows:
            stop.wait(0.1)
    database.close()


def test_an_incumbent_relay_is_replaced_on_a_live_table_and_no_row_is_lost(world):
    shape = SHAPES["ef core with a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    context = multiprocessing.get_context("fork")
    stop, sent = context.Event(), context.Value("i", 0)
    old = context.Process(target=incumbent, args=(outbox.path, receiver.url, stop, sent))
    total = 50_000
    outbox.fill(total // 2)
    old.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(old.join, 30)
        cleanup.callback(stop.set)
        until(lambda: sent.value > 500, 60, "the incumbent is at work")
        outbox.fill(total // 4, first=total // 2)
    assert not old.is_alive()
    done_before = outbox.done("Status = 'Processed'")
    assert 500 < done_before < total // 2
    relay = world.relay(outbox, receiver, settings_of(shape))
    for first in range(3 * total // 4, total, 500):
        outbox.fill(500, first=first)
    until(lambda: outbox.done("Status = 'Processed'") == total, 240, "all rows are processed")
    accepted = receiver.accepted_ids()
    ids = {row[0] for row in outbox.query("SELECT Id FROM OutboxMessages")}
    assert set(accepted) == ids
    assert len(accepted) == total, "nobody sent a row that the other had sent"
    assert relay.metric("published_total") == total - done_before


# --- what the application does meanwhile -------------------------------------------------------


def test_a_row_that_took_the_place_of_a_leased_one_is_sent_itself(world):
    """Also in the relay's own table, made anew while a row of the old one is on its way."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.7})
    outbox.insert(id="one")
    schema = outbox.query("SELECT sql FROM sqlite_schema WHERE tbl_name = 'outbox_messages'"
                          " AND sql IS NOT NULL")
    relay = world.relay(outbox, receiver)
    until(lambda: len(outbox.query("SELECT 1 FROM outbox_relay_leases")) == 1, 10, "it is leased")
    with outbox.connection() as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("DROP TABLE outbox_messages")
        for (statement,) in schema:
            database.execute(statement)
        database.execute("INSERT INTO outbox_messages (id, event_type, payload)"
                         " VALUES ('two', 't', 'x')")
        database.execute("COMMIT")
    receiver.wait_for_ids(["two"], 30)
    until(lambda: outbox.states() == {"Processed": 1}, 20, "it is processed")
    assert relay.stop() == 0


def test_numbers_that_are_given_out_again_are_no_keys(world):
    outbox, receiver = Outbox(world.folder, create=False), world.receiver()
    outbox.make("CREATE TABLE o (Id INTEGER PRIMARY KEY, Type TEXT, Payload TEXT,"
                " ProcessedOn TEXT)")
    relay = world.relay(outbox, receiver, {"store": {"table": "o", "preset": "dotnet"}},
                        start=False)
    relay.start(wait=False)
    until(lambda: "AUTOINCREMENT" in relay.get("/readyz")[1], 20, "the relay says why")
    relay.stop()


def test_ids_below_zero_are_sent_too(world):
    outbox, receiver = Outbox(world.folder, create=False), world.receiver()
    outbox.make("CREATE TABLE o (Id INTEGER PRIMARY KEY AUTOINCREMENT, Type TEXT,"
                " Payload TEXT, ProcessedOn TEXT)")
    relay = world.relay(outbox, receiver, {"store": {"table": "o", "preset": "dotnet"}})
    with outbox.connection() as database:
        for number in (-9_000_000_000, -5, 0, 1, 2**53 + 1):
            database.execute("INSERT INTO o VALUES (?, 't', 'x', NULL)", (number,))
    receiver.wait_for_ids(["-9000000000", "-5", "0", "1", str(2**53 + 1)], 20)
    assert relay.stop() == 0


def test_a_column_that_comes_later_stops_the_relay_rather_than_be_guessed_at(world):
    shape = SHAPES["ef core without a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    relay = world.relay(outbox, receiver, settings_of(shape))
    outbox.fill(20)
    until(lambda: outbox.done() == 20, 20, "all are processed")
    with outbox.connection() as database:
        database.execute("ALTER TABLE OutboxMessages ADD COLUMN"
                         " Status TEXT NOT NULL DEFAULT 'Pending'")
    until(lambda: relay.get("/readyz")[0] == 503 and "other ones" in relay.get("/readyz")[1], 20,
          "the relay says that the columns have changed")
    assert len(receiver.requests()) == 20
    relay.stop()


def test_what_the_application_says_of_a_waiting_row_counts(world):
    shape = SHAPES["ef core with a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    receiver.rules({"status": 409})
    rows = outbox.fill(3)
    settings = {**settings_of(shape), "retry": {"baseDelay": "2s", "jitter": "none"}}
    world.relay(outbox, receiver, settings)
    until(lambda: outbox.value("SELECT count(*) FROM OutboxMessages WHERE Status = 'Failed'") == 3,
          20, "all wait")
    with outbox.connection() as database:
        database.execute("UPDATE OutboxMessages SET Status = 'Cancelled' WHERE Id = ?",
                         (rows[0][0],))
        database.execute("UPDATE OutboxMessages SET Status = 'Processed' WHERE Id = ?",
                         (rows[1][0],))
    receiver.rules()
    receiver.wait_for_ids([rows[2][0]], 20)
    outbox.fill(1, first=10)
    until(lambda: len(receiver.accepted()) == 2, 20, "the next one is sent")
    assert rows[0][0] not in receiver.accepted_ids()
    assert rows[1][0] not in receiver.accepted_ids()


def test_a_trigger_that_ignores_changes_makes_no_repeats(world):
    shape = SHAPES["ef core with a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    with outbox.connection() as database:
        database.execute("CREATE TRIGGER keep BEFORE UPDATE ON OutboxMessages"
                         " BEGIN SELECT RAISE(IGNORE); END")
    rows = outbox.fill(10)
    relay = world.relay(outbox, receiver, settings_of(shape))
    receiver.wait_for_ids([row[0] for row in rows], 20)
    until(lambda: outbox.value("SELECT count(*) FROM outbox_relay_rows"
                               " WHERE state = 'Processed'") == 10, 20, "it is kept beside")
    assert relay.stop() == 0
    assert len(receiver.requests()) == 10


def test_a_large_table_without_an_index_on_the_key_is_not_ordered_by_it(world):
    shape = SHAPES["ef core without a status"]
    outbox, receiver = ForeignOutbox(world.folder, shape), world.receiver()
    outbox.fill(3_000)
    relay = world.relay(outbox, receiver, settings_of(shape, ordering="key"), start=False)
    relay.start(wait=False)
    until(lambda: "CREATE INDEX" in relay.get("/readyz")[1], 20, "the relay names the index")
    statement = json.loads(relay.get("/readyz")[1])["storeError"]
    statement = statement[statement.index("CREATE INDEX"):statement.index(";")]
    with outbox.connection() as database:
        database.execute(statement)
    until(lambda: outbox.done() == 3_000, 60, "all are sent")
