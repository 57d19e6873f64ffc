"""PostgreSQL -> relays -> a RabbitMQ quorum queue, read by a consumer that is not ours."""

import os

from harness.pair import by_way

MANY = int(os.environ.get("OUTBOX_E2E_ROWS", "100000"))


@by_way("direct", "pooler", "grants")
def test_many_rows_arrive_once(pair):
    pair.fill(MANY)
    running = pair.relays()
    pair.settled(240)
    pair.check_all_sent()
    assert pair.published() == MANY
    assert [relay.stop() for relay in running] == [0] * len(running)
    assert pair.leases() == 0


@by_way("direct")
def test_the_order_of_each_key_is_kept(pair):
    pair.fill(6_000, keys=300)
    pair.relays({"relay": {"ordering": "key"}})
    pair.settled(120)
    pair.check_all_sent(ordered=True)
    assert pair.published() == 6_000
