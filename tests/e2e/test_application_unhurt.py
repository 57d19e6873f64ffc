"""The application is never hurt: no failed write, and commits about as quick as without a relay."""

from harness.checks import percentile
from harness.waiting import until
from harness.world import wait_processed

ROUNDS = 5
ROWS_A_ROUND = 1_500


def test_the_applications_slowest_commits_stay_within_twice_their_time_and_5_ms(world):
    watched, alone = world.outbox("watched.db"), world.outbox("alone.db")
    receiver = world.receiver()
    relay = world.relay(watched, receiver)
    latencies = {watched.path: [], alone.path: []}
    for number in range(ROUNDS):
        for outbox in (alone, watched):
            writer = world.writer(outbox, count=ROWS_A_ROUND, seed=number,
                                  name=f"{number}-{'watched' if outbox is watched else 'alone'}")
            summary = writer.wait(60)
            assert summary["errors"] == []
            latencies[outbox.path] += writer.latencies()
        wait_processed(watched, 60)
    without, beside = (percentile(latencies[outbox.path], 0.99) for outbox in (alone, watched))
    print(f"p99 of a commit: {without * 1e3:.2f} ms alone, {beside * 1e3:.2f} ms beside the relay")
    assert len(receiver.requests()) == ROUNDS * ROWS_A_ROUND
    assert beside <= 2 * without + 0.005
    assert relay.metric("store_faults_total") == 0


def test_a_writer_without_patience_is_never_turned_away_for_long(world):
    """With a busy time-out of only 200 ms no write fails: the relay holds the lock briefly."""
    outbox, receiver = world.outbox(), world.receiver()
    world.relay(outbox, receiver)
    writers = [world.writer(outbox, count=1_500, seed=number, name=f"writer{number}",
                            busy_timeout=0.2, pause=0.002) for number in range(2)]
    summaries = [writer.wait(60) for writer in writers]
    # Two writers may also turn each other away, so one of them alone decides if there was an error.
    assert sum(len(summary["errors"]) for summary in summaries) == 0
    until(lambda: len(receiver.requests()) == 3_000, 60, "all delivered")
