"""The database misbehaves: nothing is lost, the reason is told, and work goes on by itself."""

import os
import shutil
import subprocess
import time

import pytest

from harness import checks
from harness.outbox import Outbox
from harness.waiting import holds, until
from harness.world import wait_processed

IN_FLIGHT = 40
SETTINGS = {"relay": {"batchSize": 20, "maxInFlight": IN_FLIGHT}}
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small file system or"
                                                          " to run the relay as another user")


def wait_not_ready(relay, *words, seconds=10):
    """Waits until /readyz says 503 with one of the words; the log must say it too."""
    def told():
        status, body = relay.get("/readyz")
        return status == 503 and any(word in body.lower() for word in words)

    until(told, seconds, lambda: f"not ready because of {words}: {relay.get('/readyz')}")
    until(lambda: any(word in relay.log_text().lower() for word in words), 5, f"{words} in the log")
    assert relay.get("/livez")[0] == 200
    assert relay.metric("store_up") == 0


def recovers(relay, outbox, receiver, ids, seconds=20):
    receiver.wait_for_ids(ids, seconds)
    wait_processed(outbox, 10)
    relay.wait_ready(10)
    assert relay.metric("store_up") == 1


def test_a_writer_that_holds_the_lock_for_8_s_delays_and_breaks_nothing(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.05})
    relay = world.relay(outbox, receiver, {"relay": {**SETTINGS["relay"], "leaseTerm": "4s"}})
    ids = outbox.insert_many(200)
    receiver.wait_for_requests(20, 10)
    lines = len(relay.log())
    with outbox.connection() as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO outbox_messages (id, event_type, payload)"
                         " VALUES ('x', 't', '')")
        holds(lambda: relay.get("/livez")[0] == 200, 8, "alive while the lock is taken")
        cpu = relay.cpu_seconds()
        database.execute("COMMIT")
    assert cpu < 4, "it should wait for the lock, not spin"
    recovers(relay, outbox, receiver, [*ids, "x"])
    assert checks.repeats(receiver.requests()) == []
    assert relay.metric("sqlite_busy_total") > 0
    assert len(relay.log()) - lines < 20
    assert relay.stop() == 0 and outbox.leases() == 0


def test_a_long_reader_delays_nobody_and_the_wal_is_watched(world):
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver, {"store": {"walLimit": "1MiB"}})
    outbox.insert()
    with outbox.connection() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM outbox_messages").fetchone()
        writer = world.writer(outbox, count=3_000)
        assert writer.wait(60)["errors"] == []
        receiver.wait_for_ids(writer.ids(), 60)
        wait_processed(outbox, 10)
        until(lambda: relay.metric("sqlite_wal_bytes") > 5 << 20, 20, "the WAL's size is told")
        assert relay.get("/readyz")[0] == 200
        reader.execute("COMMIT")
    held_size = os.path.getsize(outbox.path + "-wal")
    writer = world.writer(outbox, count=1_000, name="after", seed=2)
    assert writer.wait(60)["errors"] == []
    receiver.wait_for_ids(writer.ids(), 30)
    grown = os.path.getsize(outbox.path + "-wal") - held_size
    assert grown < 5 << 20, "checkpoints work again: the log is written from its start"
    assert checks.repeats(receiver.requests()) == []


@NEEDS_ROOT
def test_a_full_disk_stops_the_leasing_and_all_is_delivered_when_there_is_room(world):
    folder = os.path.join(world.folder, "small")
    os.mkdir(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"can't mount a small file system here: {mounted.stderr.strip()}")
    world.finally_do(lambda: subprocess.run(["umount", "-l", folder], check=True))
    outbox, receiver = Outbox(folder), world.receiver()
    receiver.rules({"delay": 0.02})
    relay = world.relay(outbox, receiver, SETTINGS)
    ids = outbox.insert_many(1_000, payload=b"x" * 200)
    receiver.wait_for_requests(20, 10)
    filler = os.path.join(folder, "filler")
    fill(filler)
    wait_not_ready(relay, "full", seconds=20)
    quiet = len(receiver.requests())
    holds(lambda: len(receiver.requests()) <= quiet + IN_FLIGHT, 2, "nothing new is leased")
    lines = len(relay.log())
    holds(lambda: len(relay.log()) - lines < 20, 2, "the log is not flooded")
    os.unlink(filler)
    receiver.rules()
    recovers(relay, outbox, receiver, ids)
    repeats = checks.repeats(receiver.requests())
    assert len(repeats) <= IN_FLIGHT, checks.report(repeats)
    assert outbox.states() == {"Processed": 1_000}
    outbox.check_integrity()


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


def move(outbox, folder):
    """Takes the database away, its side files with it, as a restore does. Returns the way back."""
    os.mkdir(folder)
    names = [outbox.path + suffix for suffix in ("-wal", "-shm", "")]
    for name in names:
        if os.path.exists(name):
            os.rename(name, os.path.join(folder, os.path.basename(name)))

    def back():
        for name in names:
            if os.path.exists(name):
                os.unlink(name)
        for name in os.listdir(folder):
            if not name.endswith("-shm"):
                os.rename(os.path.join(folder, name),
                          os.path.join(os.path.dirname(outbox.path), name))

    return back


def busy_relay(world):
    """A relay that holds many rows of a slow receiver."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.25})
    relay = world.relay(outbox, receiver, SETTINGS)
    ids = outbox.insert_many(60, event_type="asset.old")
    receiver.wait_for_requests(6, 10)
    return outbox, receiver, relay, ids


def quiet_after(receiver, ids, moment, grace=1.5):
    """Requests for these ids that began more than `grace` seconds after the moment."""
    return [r for r in receiver.requests() if r["id"] in set(ids) and r["t"] > moment + grace]


def test_a_swapped_file_ends_the_old_leases_and_the_new_file_is_served(world):
    outbox, receiver, relay, ids = busy_relay(world)
    other = world.outbox("other.db")
    new = other.insert_many(30, event_type="asset.new")
    other.query("PRAGMA wal_checkpoint(TRUNCATE)")
    back = move(outbox, os.path.join(world.folder, "aside"))
    swapped = time.monotonic()
    os.rename(other.path, outbox.path)
    receiver.wait_for_ids(new, 15)
    relay.wait_log("replaced", 5)
    wait_processed(outbox, 10)
    assert quiet_after(receiver, ids, swapped) == []
    receiver.rules()
    back()
    receiver.wait_for_ids(ids, 20)
    wait_processed(outbox, 10)
    relay.wait_ready()
    repeats = checks.repeats(receiver.requests())
    assert len(repeats) <= IN_FLIGHT, checks.report(repeats)


def test_a_deleted_file_stops_everything_until_it_is_restored(world):
    outbox, receiver, relay, ids = busy_relay(world)
    back = move(outbox, os.path.join(world.folder, "aside"))
    deleted = time.monotonic()
    wait_not_ready(relay, "no database")
    holds(lambda: not os.path.exists(outbox.path), 2, "run never creates the application's file")
    assert quiet_after(receiver, ids, deleted) == []
    receiver.rules()
    back()
    recovers(relay, outbox, receiver, ids)
    repeats = checks.repeats(receiver.requests())
    assert len(repeats) <= IN_FLIGHT, checks.report(repeats)


def take_log(outbox, relay, suffixes):
    """Removes files of the log, of which all has been moved to the database; else returns False."""
    relay.pause()
    try:
        with outbox.connection(timeout=0.1) as database:
            busy, frames, moved = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy or frames != moved:
                return False
            for suffix in suffixes:
                os.unlink(outbox.path + suffix)
        return True
    finally:
        relay.resume()


@pytest.mark.parametrize("removed", [("-wal", "-shm"), ("-shm",), ("-wal",)])
def test_a_write_ahead_log_that_is_taken_away_is_noticed_and_the_new_one_is_used(world, removed):
    """As scripts do that restore a backup in place. An application begins a new log; who kept the
    old one would see nothing of it, and with its index could destroy it."""
    outbox, receiver = world.outbox(), world.receiver()
    relay = world.relay(outbox, receiver, {"retention": {"processed": "1s", "interval": "1s"}})
    ids = []
    for _ in range(3):
        ids += outbox.insert_many(10)
        wait_processed(outbox, 10)
        until(lambda: take_log(outbox, relay, removed), 10, "nothing stands in the log alone")
        ids += outbox.insert_many(10)
        receiver.wait_for_ids(ids, 15)
        relay.wait_ready(10)
    relay.wait_log("its write-ahead log was removed")
    wait_processed(outbox, 10)
    outbox.check_integrity()
    assert checks.repeats(receiver.requests()) == []
    assert relay.stop() == 0 and outbox.leases() == 0
    outbox.check_integrity()


@NEEDS_ROOT
def test_a_read_only_file_stops_everything_until_it_is_writable(world):
    """Also while the relay has it open: its descriptor could still write, but that is not meant."""
    folder = os.path.join(world.folder, "data")
    os.mkdir(folder)
    outbox, receiver = Outbox(folder), world.receiver()
    os.chmod(world.folder, 0o777)
    own(folder)
    receiver.rules({"delay": 0.25})
    relay = world.relay(outbox, receiver, SETTINGS, user="nobody")
    ids = outbox.insert_many(60)
    receiver.wait_for_requests(6, 10)
    change_mode(folder, 0o444)
    protected = time.monotonic()
    wait_not_ready(relay, "read-only", "readonly", "not writable", "permission")
    holds(lambda: quiet_after(receiver, ids, protected) == [], 2, "nothing is sent")
    change_mode(folder, 0o644)
    receiver.rules()
    recovers(relay, outbox, receiver, ids)
    repeats = checks.repeats(receiver.requests())
    assert len(repeats) <= IN_FLIGHT, checks.report(repeats)


@NEEDS_ROOT
def test_a_relay_that_starts_on_a_read_only_file_says_so_and_waits(world):
    folder = os.path.join(world.folder, "data")
    os.mkdir(folder)
    outbox, receiver = Outbox(folder), world.receiver()
    os.chmod(world.folder, 0o777)
    ids = outbox.insert_many(5)
    own(folder)
    change_mode(folder, 0o444)
    relay = world.relay(outbox, receiver, user="nobody", start=False)
    relay.start(wait=False)
    wait_not_ready(relay, "read-only", "readonly", "not writable", "permission")
    assert receiver.requests() == []
    change_mode(folder, 0o644)
    recovers(relay, outbox, receiver, ids)


def own(folder):
    for name in ("", *os.listdir(folder)):
        shutil.chown(os.path.join(folder, name), "nobody", "nogroup")


def change_mode(folder, mode):
    own(folder)
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), mode)


def test_a_table_that_loses_a_column_stops_the_leasing_until_it_is_back(world):
    outbox, receiver, relay, ids = busy_relay(world)
    with outbox.connection() as database:
        database.execute("ALTER TABLE outbox_messages RENAME COLUMN payload TO content")
    drifted = time.monotonic()
    wait_not_ready(relay, "payload")
    assert quiet_after(receiver, ids, drifted) == []
    with outbox.connection() as database:
        database.execute("ALTER TABLE outbox_messages RENAME COLUMN content TO payload")
    receiver.rules()
    recovers(relay, outbox, receiver, ids)
    assert outbox.states() == {"Processed": 60}


def test_a_relay_schema_of_a_newer_major_version_is_not_touched(world):
    outbox, receiver = world.outbox(), world.receiver()
    name, value = outbox.query("SELECT name, value FROM outbox_relay_meta"
                               " WHERE name = 'schema_major'")[0]
    with outbox.connection() as database:
        database.execute("UPDATE outbox_relay_meta SET value = '99' WHERE name = ?", (name,))
    ids = outbox.insert_many(5)
    relay = world.relay(outbox, receiver, start=False)
    relay.start(wait=False)
    wait_not_ready(relay, "version", "newer")
    assert receiver.requests() == []
    with outbox.connection() as database:
        database.execute("UPDATE outbox_relay_meta SET value = ? WHERE name = ?", (value, name))
    recovers(relay, outbox, receiver, ids)
