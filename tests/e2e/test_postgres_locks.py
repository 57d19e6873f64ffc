"""Rows of a PostgreSQL outbox that the application keeps locked."""

import pytest

from harness import postgres
from harness.waiting import until

pytestmark = pytest.mark.skipif(bool(postgres.MISSING),
                                reason=f"not installed: {', '.join(postgres.MISSING)}")
# So long that a relay which waits for a lock is not done before the test's patience ends.
PATIENT = {"store": {"commandTimeout": "60s"}, "relay": {"batchSize": 50},
           "brokers": {"main": {"publishTimeout": "3s", "connections": 20}}}


@pytest.fixture
def application(world, outbox):
    session = postgres.Session(outbox)
    world.finally_do(session.close)
    return session


def fill(outbox, first, last):
    outbox.sql("INSERT INTO outbox_messages (id, event_type, payload) SELECT 'evt-' || g, "
               f"'order.placed', '{{}}' FROM generate_series({first}, {last}) AS g")
    return [f"evt-{number}" for number in range(first, last + 1)]


def processed(outbox):
    return outbox.states().get("Processed", 0)


def state_of(outbox, name):
    return outbox.lines("messages", "show", name)[0]["state"]


def test_rows_locked_on_their_way_hold_up_no_others(world, outbox, application):
    """Locked while they travel, for as long as the application likes."""
    receiver = world.receiver()
    relay = world.relay(outbox, receiver, PATIENT)
    receiver.rules({"delay": 1})
    ids = fill(outbox, 1, 20)
    until(lambda: outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "20", 20,
          "all of them are leased", poll=0.01)
    application.sql("BEGIN; UPDATE outbox_messages SET payload = payload WHERE sequence % 5 = 0")
    receiver.wait_for_ids(ids, 20)
    receiver.rules()
    until(lambda: processed(outbox) == 16, 20, lambda: f"the others are: {outbox.states()}")
    ids += fill(outbox, 21, 520)
    until(lambda: processed(outbox) == 516, 20, lambda: f"so are new ones: {outbox.states()}")
    # The locked ones are on record, whatever becomes of the relay.
    until(lambda: state_of(outbox, "evt-5") == "processed", 10, "their state is kept beside")
    assert outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "0"
    application.sql("COMMIT")
    until(outbox.all_processed, 10, lambda: f"written when free: {outbox.states()}")
    assert sorted(receiver.accepted_ids()) == sorted(ids)
    assert relay.stop() == 0


def test_rows_locked_before_they_are_leased_wait_and_others_do_not(world, outbox, application):
    receiver = world.receiver()
    fill(outbox, 1, 10)
    application.sql("BEGIN; SELECT count(*) FROM (SELECT 1 FROM outbox_messages "
                    "WHERE sequence <= 3 FOR UPDATE) AS locked")
    relay = world.relay(outbox, receiver, PATIENT)
    until(lambda: processed(outbox) == 7, 20, lambda: f"the others are sent: {outbox.states()}")
    fill(outbox, 11, 200)
    until(lambda: processed(outbox) == 197, 20, lambda: f"so are new ones: {outbox.states()}")
    application.sql("ROLLBACK")
    until(outbox.all_processed, 10, lambda: f"sent when free: {outbox.states()}")
    assert sorted(receiver.accepted_ids()) == sorted(f"evt-{n}" for n in range(1, 201))
    assert relay.stop() == 0


def test_a_row_delivered_while_it_was_locked_is_not_sent_again_by_the_next_relay(
        world, outbox, application):
    receiver = world.receiver()
    relay = world.relay(outbox, receiver, PATIENT)
    receiver.rules({"delay": 1})
    fill(outbox, 1, 1)
    until(lambda: outbox.sql("SELECT count(*) FROM outbox_relay_leases") == "1", 20, "leased")
    application.sql("BEGIN; SELECT id FROM outbox_messages FOR UPDATE")
    until(lambda: state_of(outbox, "evt-1") == "processed", 20, "it is delivered, and on record")
    relay.kill()
    receiver.rules()
    world.relay(outbox, receiver, PATIENT, name="next")
    fill(outbox, 2, 2)
    receiver.wait_for_ids(["evt-2"], 20)
    application.sql("COMMIT")
    fill(outbox, 3, 3)
    receiver.wait_for_ids(["evt-3"], 20)
    assert receiver.accepted_ids() == ["evt-1", "evt-2", "evt-3"]
    assert outbox.lines("messages", "find", "--state", "pending") == []
