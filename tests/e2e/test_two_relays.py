"""Two relays on one file: one holder for each row, and quick take-over when one is gone."""

from harness import checks
from harness.waiting import holds, until
from harness.world import wait_processed

CROWD = {"relay": {"batchSize": 20, "maxInFlight": 40}, "brokers": {"main": {"connections": 2}}}


def two_relays(world, outbox, receiver, settings):
    proxies = [world.proxy(receiver, f"proxy{number}") for number in (1, 2)]
    relays = [world.relay(outbox, proxy, settings, name=f"relay{number}")
              for number, proxy in zip((1, 2), proxies)]
    return relays, proxies


def test_two_relays_on_one_file_share_the_work_and_send_no_id_twice(world):
    outbox, receiver = world.outbox(), world.receiver()
    relays, proxies = two_relays(world, outbox, receiver, CROWD)
    writer = world.writer(outbox, count=6_000)
    assert writer.wait(60)["errors"] == []
    receiver.wait_for_ids(writer.ids(), 120)
    wait_processed(outbox, 20)
    assert checks.repeats(receiver.requests()) == []
    assert checks.differences(writer.rows(), receiver.requests()) == []
    shares = [len(proxy.requests()) for proxy in proxies]
    assert sum(shares) == 6_000 and min(shares) > 300, shares
    assert [relay.stop() for relay in relays] == [0, 0]
    assert outbox.leases() == 0


def test_two_relays_keep_the_order_of_each_key(world):
    outbox, receiver = world.outbox(), world.receiver()
    two_relays(world, outbox, receiver, {"relay": {**CROWD["relay"], "ordering": "key"}})
    writer = world.writer(outbox, count=4_000, keys=10)
    assert writer.wait(60)["errors"] == []
    receiver.wait_for_ids(writer.ids(), 120)
    assert checks.repeats(receiver.requests()) == []
    findings = checks.disorder(writer.rows(), receiver.accepted())
    assert not findings, checks.report(findings)


def test_the_rows_of_a_killed_relay_move_at_once(world):
    """Well under the lease term, which is 30 s here: a dead relay's file lock is free."""
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.3})
    settings = {"relay": {**CROWD["relay"], "leaseTerm": "30s"}}
    relays, proxies = two_relays(world, outbox, receiver, settings)
    ids = outbox.insert_many(120)
    until(lambda: all(len(proxy.requests()) >= 4 for proxy in proxies), 20, "both are at work")
    relays[0].kill()
    receiver.rules()
    receiver.wait_for_ids(ids, 8)
    wait_processed(outbox, 5)
    repeats = checks.repeats(receiver.requests())
    # What travelled on its two connections, and what they had just brought and was not settled yet.
    assert len(repeats) <= 4, checks.report(repeats)
    assert outbox.states() == {"Processed": 120}


def test_a_relay_that_slept_past_its_lease_sends_nothing_of_what_it_held(world):
    outbox, receiver = world.outbox(), world.receiver()
    receiver.rules({"delay": 0.3})
    settings = {"relay": {**CROWD["relay"], "leaseTerm": "3s"}}
    relays, proxies = two_relays(world, outbox, receiver, settings)
    ids = outbox.insert_many(100)
    until(lambda: all(len(proxy.requests()) >= 4 for proxy in proxies), 20, "both are at work")
    relays[0].pause()
    receiver.rules()
    receiver.wait_for_ids(ids, 20)
    wait_processed(outbox, 10)
    before = len(proxies[0].requests())

    relays[0].resume()
    later = outbox.insert_many(200)
    receiver.wait_for_ids(later, 20)
    until(lambda: relays[0].get("/readyz")[0] == 200, 10, "the sleeper is at work again")
    holds(lambda: not {entry["id"] for entry in proxies[0].requests()[before:]} & set(ids), 1,
          "the sleeper sends nothing that it held")
    repeats = checks.repeats(receiver.requests())
    assert len(repeats) <= 4, checks.report(repeats)  # what travelled, and what was not settled yet
    assert outbox.states() == {"Processed": 300}
    assert [relay.stop() for relay in relays] == [0, 0]
