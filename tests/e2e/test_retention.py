"""What is over its time goes, and nobody notices."""

import shutil
import sqlite3

from harness.checks import percentile
from harness.waiting import until
from harness.world import wait_processed

OLD = 100_000
ALL = 1_000_000
ROUNDS = 4
ROWS_A_ROUND = 1_500

FILL = """
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :all)
INSERT INTO outbox_messages (id, event_type, status, processed_on_utc, payload)
SELECT lower(hex(randomblob(16))), 'asset.created', 'Processed',
       strftime('%Y-%m-%dT%H:%M:%fZ', 'now', CASE WHEN n <= :old THEN '-8 days' ELSE '-1 days' END),
       '{"n": ' || n || '}' FROM number
"""


def fill(outbox, old, all_rows):
    with sqlite3.connect(outbox.path) as database:
        database.execute(FILL, {"all": all_rows, "old": old})
    with outbox.connection() as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_million_rows_are_cleaned_while_the_application_writes_and_does_not_feel_it(world):
    watched = world.outbox("watched.db")
    fill(watched, OLD, ALL)
    alone = world.outbox("alone.db", create=False)
    shutil.copy(watched.path, alone.path)
    relay = world.relay(watched, "null:", {"retention": {"interval": "1s"}})
    until(lambda: "removed" in relay.log_text() or rows_left(watched) < ALL, 20, "it has begun")
    latencies = {watched.path: [], alone.path: []}
    during = 0
    for number in range(ROUNDS):
        for outbox in (alone, watched):
            before = rows_left(watched)
            writer = world.writer(outbox, count=ROWS_A_ROUND, seed=number,
                                  name=f"{number}-{'watched' if outbox is watched else 'alone'}")
            summary = writer.wait(60)
            assert summary["errors"] == []
            latencies[outbox.path] += writer.latencies()
            if outbox is watched:
                during += before + ROWS_A_ROUND - rows_left(watched)
    without, beside = (percentile(latencies[outbox.path], 0.99) for outbox in (alone, watched))
    print(f"p99 of a commit: {without * 1e3:.2f} ms alone, {beside * 1e3:.2f} ms while "
          f"{during} rows were removed")
    assert during > 0, "nothing was removed while the application wrote"
    assert beside <= 2 * without + 0.005
    wait_processed(watched, 60)
    until(lambda: rows_left(watched) == ALL - OLD + ROUNDS * ROWS_A_ROUND, 60,
          lambda: f"the old ones are gone, the others are not: {rows_left(watched)}", poll=0.2)
    assert relay.stop() == 0
    watched.check_integrity()


def rows_left(outbox):
    return outbox.value("SELECT count(*) FROM outbox_messages")


def test_rows_are_gone_at_once_after_delivery_with_a_term_of_zero(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    world.relay(outbox, receiver, {"retention": {"processed": "0s"}})
    bad = outbox.insert(event_type="asset.poison")
    ids = outbox.insert_many(300)
    receiver.wait_for_ids(ids, 10)
    until(lambda: outbox.states() == {"DeadLettered": 1}, 15,
          lambda: f"only the dead letter is left: {outbox.states()}")
    more = outbox.insert_many(10)
    receiver.wait_for_ids(more, 10)
    until(lambda: rows_left(outbox) == 1, 15, "and again")
    assert outbox.row(bad)["status"] == "DeadLettered"


def test_with_never_everything_stays(world):
    outbox = world.outbox()
    fill(outbox, 50, 60)
    relay = world.relay(outbox, "null:", {
        "retention": {"processed": "never", "attempts": "0s", "interval": "1s"},
        "log": {"level": "debug"}})
    # A clean-up came to its end: it removed this entry.
    outbox.query("INSERT INTO outbox_relay_audit (outbox, at, action)"
                 " VALUES ('outbox_messages', '2020-01-01T00:00:00.000Z', 'pause')")
    until(lambda: outbox.value("SELECT count(*) FROM outbox_relay_audit") == 0, 15, "cleaned")
    assert rows_left(outbox) == 60
    assert relay.stop() == 0


def test_dead_letters_with_a_term_go_unless_they_block_their_key(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"types": ["asset.poison"], "status": 422})
    blocking = outbox.insert(event_type="asset.poison", ordering_key="k")
    behind = outbox.insert(ordering_key="k")
    plain = outbox.insert(event_type="asset.poison")
    world.relay(outbox, receiver, {"relay": {"ordering": "key"},
                                   "retention": {"deadLettered": "0s", "attempts": "never"}})
    until(lambda: outbox.value("SELECT count(*) FROM outbox_messages WHERE id = ?", plain) == 0, 15,
          "the one that blocks nothing is gone")
    assert outbox.row(blocking)["status"] == "DeadLettered"
    assert outbox.row(behind)["status"] == "Pending"
    actions = outbox.query("SELECT action FROM outbox_relay_audit WHERE event_id = ?"
                           " ORDER BY rowid", plain)
    assert actions == [("dead_letter",), ("expire",)]
