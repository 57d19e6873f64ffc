"""Every message is turned away by policy: the destination is held, and the table survives."""

from harness.waiting import holds, until
from harness.world import wait_processed

ROWS = 200


def test_a_403_for_everything_holds_the_destination_and_nothing_dies(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 403})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 20, "maxInFlight": 40}})
    ids = outbox.insert_many(ROWS)
    until(lambda: relay.metric("destinations_held") == 1, 15, "the destination is held")
    until(lambda: "403" in relay.get("/readyz")[1], 5, lambda: relay.get("/readyz")[1])
    assert relay.get("/readyz")[0] == 200
    lines = [entry for entry in relay.log() if "held" in str(entry).lower() and "403" in str(entry)]
    assert len(lines) == 1, lines
    until(lambda: outbox.leases() <= 1, 10, "what was under way when it was held is settled")
    sent = len(receiver.requests())
    assert 10 <= sent <= 80
    holds(lambda: len(receiver.requests()) <= sent + 1, 5, "one probe a minute, no more")
    assert outbox.states()["DeadLettered"] == 0
    assert relay.circuit() == "closed"
    assert relay.metric("publish_failures_total", kind="misconfigured") == len(receiver.requests())

    receiver.rules()
    receiver.wait_for_ids(ids, 95)
    wait_processed(outbox, 10)
    until(lambda: relay.metric("destinations_held") == 0, 5, "no longer held")
    assert "403" not in relay.get("/readyz")[1]
    assert outbox.states() == {"Processed": ROWS}
    assert relay.metric("dead_lettered_total") == 0


def test_a_400_for_everything_kills_a_handful_of_rows_and_not_the_table(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"status": 400})
    relay = world.relay(outbox, receiver, {"relay": {"batchSize": 20, "maxInFlight": 40}})
    outbox.insert_many(ROWS)
    until(lambda: relay.metric("destinations_held") == 1, 15, "the destination is held")
    until(lambda: outbox.leases() <= 1, 10, "what was in flight is settled")
    dead = outbox.states()["DeadLettered"]
    assert dead <= 60
    holds(lambda: outbox.states()["DeadLettered"] <= dead + 1, 3, "no more die")


def test_one_misconfigured_row_delays_only_itself(world):
    outbox, receiver = world.outbox(), world.receiver()
    lonely = outbox.insert()
    receiver.rules({"ids": [lonely], "status": 404})
    relay = world.relay(outbox, receiver)
    others = outbox.insert_many(100)
    receiver.wait_for_ids(others, 15)
    until(lambda: outbox.row(lonely)["status"] == "Failed", 5, lambda: f"{outbox.row(lonely)}")
    assert outbox.row(lonely)["retry_count"] == 0 and "404" in outbox.row(lonely)["last_error"]
    assert [request["id"] for request in receiver.requests()].count(lonely) == 1
    assert relay.metric("destinations_held") == 0
