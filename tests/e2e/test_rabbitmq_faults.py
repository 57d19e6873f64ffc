"""PostgreSQL -> relays -> RabbitMQ, while everything on the broker's side breaks: what rows, circuit,
metrics and log show meanwhile, and that all is as it should be afterwards."""

import os
import time

import pytest

from harness import amqp
from harness.pair import WAYS, Pair, by_way
from harness.process import replace_file
from harness.relay import merged
from harness.waiting import holds, until
from harness.world import World

PROOF = bool(os.environ.get("OUTBOX_PROOF"))
IN_FLIGHT = 100  # for each relay
SHORT = {
    "brokers": {"main": {"publishTimeout": "2s"}},
    "breaker": {"breakDuration": "1s"},
    "relay": {"batchSize": 50, "maxInFlight": IN_FLIGHT},
    # So long that a row is only sent in time if the recovery makes it due.
    "retry": {"baseDelay": "2m", "maxDelay": "5m", "jitter": "none"},
}
# A break with its jitter and the time-out of a publish; the rest is for a busy machine.
BACK_WITHIN = 1.2 + 2 + 6
PROBE_EVERY = 60  # of a held destination
ONE_BY_ONE = {"retry": {"baseDelay": "200ms", "maxDelay": "1s"}}


def total(relays, name, **labels):
    return sum(relay.metric(name, **labels) for relay in relays)


def fails(relays, kind):
    return total(relays, "publish_failures_total", kind=kind)


def rows(pair, error):
    """How many rows wait with such an error: (all of them, those that were charged with it)."""
    text = pair.outbox.sql("SELECT count(*), count(*) FILTER (WHERE retry_count > 0) "
                           "FROM outbox_messages WHERE status = 'Failed' "
                           f"AND position($${error}$$ IN last_error) > 0")
    return tuple(int(word) for word in text.split("|"))


def shows_an_outage(pair, relays, *errors, kind="transport"):
    """The circuit of each is open for one of these reasons, rows wait with the first of them, and
    nobody is worse off than that."""
    def is_why(reason):
        return any(error in reason for error in errors)

    for relay in relays:
        relay.wait_circuit("open", 30)
        assert relay.get("/livez")[0] == 200
        until(lambda: '"circuit": "open"' in relay.get("/readyz")[1], 10, "/readyz says so")
        assert relay.get("/readyz")[0] == 200
        opened = [entry for entry in relay.log()
                  if entry.get("from") == "closed" and entry.get("to") == "open"]
        assert len(opened) == 1 and is_why(opened[0]["reason"]), opened
        failed = [entry for entry in relay.log() if entry["msg"] == "publish failed"]
        assert any(entry["kind"] == kind and is_why(entry["reason"]) for entry in failed), failed
        # What the queue had taken before it was full may be confirmed last: then a probe tells.
        up = 0 if kind == "transport" else 1
        until(lambda: relay.metric("broker_up") == up, 30, f"broker_up is {up}")
    waiting, charged = until(lambda: rows(pair, errors[0])[0] and rows(pair, errors[0]), 10,
                             "rows say why")
    assert charged == waiting
    assert fails(relays, kind) >= waiting
    assert "DeadLettered" not in pair.outbox.states()


def probes_go_on(relays, count=3):
    """A line in the log for each probe, and none for each row."""
    def probes(relay):
        return [entry for entry in relay.log() if entry["msg"].startswith("probe: ")]

    until(lambda: sum(len(probes(relay)) for relay in relays) >= count, 30, f"{count} probes")
    for relay in relays:
        told = probes(relay)
        assert all("backlog" in entry and "next_probe_seconds" in entry for entry in told), told
        half_opens = relay.metric("broker_circuit_transitions_total", to="half_open")
        assert len(told) <= half_opens + 1
        assert len(relay.log()) < 30 + 4 * (half_opens + 1), relay.log_tail()


def is_over(pair, relays, before, repeats_max, seconds=30):
    """The first row goes out soon, and all that waited goes with it."""
    until(lambda: pair.published() > before, BACK_WITHIN, "a first delivery")
    pair.settled(seconds)
    pair.check_all_sent(repeats_max=repeats_max)
    charged = int(pair.outbox.sql("SELECT sum(retry_count) FROM outbox_messages"))
    failures = fails(relays, "transport") + fails(relays, "throttled")
    assert charged == failures + total(relays, "broker_circuit_open_total")
    assert pair.published() == len(pair.truth())
    assert total(relays, "dead_lettered_total") == 0
    assert total(relays, "lease_expired_total") == 0
    # Who had nothing to send meanwhile closes with the next rows.
    until(lambda: pair.fill(300, f"more{time.monotonic()}") and
          all(relay.circuit() == "closed" for relay in relays), 30, "all circuits close", poll=0.3)
    assert all("circuit closed: publishing" in relay.log_text() for relay in relays)
    pair.settled(30)


# ---- The broker, and the way to it -------------------------------------------------------------

@by_way("direct")
def test_a_broker_killed_and_started_again_is_gone_on_with(pair):
    pair.queue.wait_durable()
    relays = pair.relays(SHORT)
    pair.fill(20_000)
    pair.queue.wait_for_count(1_000, 60)
    pair.kill_broker()
    shows_an_outage(pair, relays, "a socket error occurred", "connection closed unexpectedly")
    probes_go_on(relays)
    before = pair.published()
    assert before < 20_000
    pair.rabbit.start()
    is_over(pair, relays, before, repeats_max=len(relays) * IN_FLIGHT, seconds=60)


@by_way("pooler")
def test_a_connection_reset_while_publishing_is_one_failure_for_the_circuit(pair):
    """Each takes many rows with it; two failures in a row would open the circuit."""
    settings = {**ONE_BY_ONE, "breaker": {"consecutiveFailures": 2}}
    relay = pair.relay(merged(SHORT, settings))
    for cut in range(1, 6):
        pair.fill(1_000, prefix=f"cut{cut}")
        before = fails([relay], "transport")
        until(lambda: pair.broker.open_connections() or pair.fill(1, f"one{time.monotonic()}"),
              20, "it is connected", poll=0.2)
        pair.broker.cut_next_answer()
        until(lambda: len(pair.broker.cuts()) == cut, 20, f"connection {cut} is cut")
        pair.settled(60)
        assert fails([relay], "transport") > before
    failures = fails([relay], "transport")
    assert failures > 10
    assert relay.circuit() == "closed"
    assert relay.metric("broker_circuit_transitions_total") == 0
    # The broker had taken what it could not confirm.
    pair.check_all_sent(repeats_max=failures)
    assert pair.repeats() >= 5
    assert relay.metric("redelivered_total") >= pair.repeats()
    assert len(pair.broker.connections()) == 6
    assert relay.metric("dead_lettered_total") == 0


@by_way("grants")
def test_a_network_that_swallows_everything_for_20_s_hangs_nobody(pair):
    relays = pair.relays(merged(SHORT, {"relay": {"drainTimeout": "2s"}}))
    idle = Pair(pair.world, pair.server, pair.rabbit)
    lonely = idle.relay(SHORT, "lonely")
    idle.fill(10, "warm")
    idle.settled(20)
    pair.fill(1_000, "healthy")
    pair.settled(30)
    began = time.monotonic()
    for proxy in (pair.broker, idle.broker):
        proxy.black_hole()
        proxy.forget_connections()
    pair.fill(5_000)
    # Who had to connect first got no answer to that.
    shows_an_outage(pair, relays, "no confirm in time", "did not answer in time", "timed out")
    leaver = relays.pop()
    assert leaver.stop(15) == 0
    probes_go_on(relays)
    # Heartbeats find it, and nothing has to fail for that.
    until(lambda: idle.broker.open_connections() == 0, 30, "the idle connection is given up")
    until(lambda: time.monotonic() > began + 20, 25, "20 s have passed")
    before = pair.published()
    pair.broker.let_pass()
    idle.broker.let_pass()
    idle.fill(10, "after")
    # One relay has left, and what it counted is gone: no sums here.
    until(lambda: pair.published() > before, BACK_WITHIN, "a first delivery")
    pair.settled(30)
    pair.check_all_sent(repeats_max=(len(relays) + 1) * IN_FLIGHT)
    assert total(relays, "dead_lettered_total") == 0
    idle.settled(20)
    idle.check_all_sent()
    assert fails([lonely], "transport") == 0


@by_way("direct")
def test_a_connection_that_a_firewall_has_forgotten_is_not_kept(pair):
    """The broker can be reached again, only not over the connection that there was."""
    relay = pair.relay(SHORT)
    pair.fill(100, "healthy")
    pair.settled(30)
    pair.broker.forget_connections()
    pair.fill(500)
    until(lambda: fails([relay], "transport") > 0, 10, "a time-out")
    before = pair.published()
    is_over(pair, [relay], before, repeats_max=IN_FLIGHT)


# ---- The broker says no for a while ------------------------------------------------------------

@by_way("grants")
def test_a_full_queue_opens_the_circuit_until_there_is_room(world, pair_servers, way):
    pair = Pair(world, *pair_servers, way, max_length=100, overflow="reject-publish")
    pair.queue.rest()
    relays = pair.relays(SHORT, count=2)
    pair.fill(2_000)
    shows_an_outage(pair, relays, "basic.nack")
    probes_go_on(relays)
    before = pair.published()
    assert 100 <= before < 1_000
    assert len(pair.broker.connections()) == len(relays)
    pair.queue.consume()
    until(lambda: pair.published() > before, BACK_WITHIN, "a first delivery")
    # It fills up again each time that we are faster than its consumer.
    pair.settled(90)
    pair.check_all_sent()
    assert total(relays, "dead_lettered_total") == 0


@pytest.fixture
def memory_alarm(pair_servers):
    """A function that says whether memory is short."""
    def set_to(short):
        words = ("set_vm_memory_high_watermark", "0.0000001" if short else "0.4")
        done = pair_servers[1].ctl(*words)
        assert done.returncode == 0, done

    yield set_to
    set_to(False)


@by_way("pooler")
def test_a_memory_alarm_pauses_publishing(pair, memory_alarm):
    relays = pair.relays(SHORT, count=2)
    pair.fill(1_000, "healthy")
    pair.settled(30)
    connections = len(pair.broker.connections())
    memory_alarm(True)
    pair.fill(2_000)
    shows_an_outage(pair, relays, "blocked: low on memory", kind="throttled")
    probes_go_on(relays)
    sent = total(relays, "publish_attempts_total")
    before = pair.published()
    assert before == 1_000 and sent <= 1_000 + len(relays) * IN_FLIGHT
    # Probes see that it is blocked, and put nothing more into its buffers.
    holds(lambda: total(relays, "publish_attempts_total") == sent, 30 if PROOF else 3, "it pauses")
    memory_alarm(False)
    is_over(pair, relays, before, repeats_max=len(relays) * IN_FLIGHT)
    assert fails(relays, "transport") == 0
    # It was the same connections all the time.
    assert len(pair.broker.connections()) == connections


# ---- What no queue is bound for ----------------------------------------------------------------

@by_way("direct")
def test_an_exchange_for_unroutable_events_gets_what_no_queue_is_bound_for(pair):
    lost = amqp.Queue(pair.world.folder, pair.rabbit)
    pair.world.keep(lost.consumer)
    relay = pair.relay(merged(SHORT, {"brokers": {"main": {"unroutableExchange": lost.exchange}}}))
    bound = pair.fill(200, "bound")
    pair.settled(30)
    pair.queue.unbind()
    unbound = pair.fill(200, "unbound")
    pair.settled(30)
    lost.wait_for_ids(unbound, 10)
    pair.queue.bind()
    again = pair.fill(200, "again")
    pair.settled(30)
    pair.queue.wait_for_ids(bound + again, 10)
    assert sorted(pair.queue.ids()) == sorted(bound + again)
    assert sorted(lost.ids()) == sorted(unbound)
    assert pair.untouched() and relay.metric("publish_failures_total") == 0
    assert relay.metric("destinations_held") == 0
    assert pair.published() == 600


# ---- What an operator has to mend --------------------------------------------------------------

class Unbound:
    """The queue's binding is gone."""

    way, words, in_flight = "direct", "312 NO_ROUTE (exchange 'events", 0

    def __init__(self, pair):
        self.pair = pair
        self.settings = {}

    def break_it(self):
        self.pair.queue.unbind()

    def mend(self):
        self.pair.queue.bind()


class Deleted(Unbound):
    """The exchange is gone."""

    way, words, in_flight = "pooler", "404 NOT_FOUND - no exchange 'events", IN_FLIGHT

    def break_it(self):
        self.pair.queue.consumer.must("deleteExchange", self.pair.queue.exchange)

    def mend(self):
        self.pair.queue.declare()


class Password(Unbound):
    """The user has another password."""

    way, words, in_flight = "grants", "403 ACCESS_REFUSED - Login was refused", IN_FLIGHT

    def __init__(self, pair):
        super().__init__(pair)
        self.user = f"relay-{pair.outbox.database}"
        self.file = os.path.join(pair.world.folder, "password")
        replace_file(self.file, "first")
        self.settings = {"brokers": {"main": {"username": self.user, "passwordFile": self.file}}}
        self.ctl("add_user", self.user, "first")
        self.allow(".*")

    def ctl(self, *words):
        done = self.pair.rabbit.ctl(*words)
        assert done.returncode == 0, done

    def allow(self, write):
        self.ctl("set_permissions", self.user, "", write, "")

    def break_it(self):
        self.ctl("change_password", self.user, "second")
        # Who is logged in stays so.
        self.pair.broker.drop_connections()

    def mend(self):
        replace_file(self.file, "second")


class Forbidden(Password):
    """The user may not write to the exchange."""

    way, words = "direct", "403 ACCESS_REFUSED - access to exchange 'events"

    def break_it(self):
        self.allow("")

    def mend(self):
        self.allow(".*")


class Excluded(Forbidden):
    """The user has no permissions in the vhost at all."""

    way, words = "pooler", "530 NOT_ALLOWED - access to vhost '/' refused for user"

    def break_it(self):
        self.ctl("clear_permissions", self.user)


FAULTS = [(fault, way) for fault in (Unbound, Deleted, Password, Forbidden, Excluded)
          for way in (WAYS if PROOF else [fault.way])]


class Case:
    """One fault. A destination is held for a minute, so that all of them are broken and mended
    together: what was to be seen meanwhile is looked at before that."""

    HEALTHY, WAITING = 50, 500

    def __init__(self, fault, way, servers):
        self.world = World()
        self.pair = Pair(self.world, *servers, way)
        self.fault = fault(self.pair)
        self.relay = self.pair.relay(merged(SHORT, self.fault.settings))
        self.pair.fill(self.HEALTHY, "healthy")
        self.pair.settled(30)

    def break_it(self):
        self.fault.break_it()
        self.pair.fill(self.WAITING, "waiting")

    def look(self):
        until(lambda: self.relay.metric("destinations_held", reason="misconfigured") == 1, 30,
              lambda: f"{self.fault.__doc__} It is held: {self.relay.log_tail(8)}")
        until(lambda: self.pair.leases() == 0, 20, "what was in flight is settled")
        self.ready = self.relay.get("/readyz")
        self.circuit = self.relay.circuit()
        self.waiting, self.charged = rows(self.pair, self.fault.words)
        self.due = [float(word) for word in self.pair.outbox.sql(
            "SELECT extract(epoch FROM next_attempt_on_utc - clock_timestamp()) "
            "FROM outbox_messages WHERE status = 'Failed' AND retry_count = 0").split()]
        self.attempts, self.looked = self.relay.metric("publish_attempts_total"), time.monotonic()

    def mend(self):
        self.probes = self.relay.metric("publish_attempts_total") - self.attempts
        self.probes_due = 1 + (time.monotonic() - self.looked) // PROBE_EVERY
        self.fault.mend()


@pytest.fixture(scope="module")
def cases(pair_servers):
    made = {}
    try:
        for fault, way in FAULTS:
            made[fault, way] = Case(fault, way, pair_servers)
        for case in made.values():
            case.break_it()
            case.look()  # before its rows are due again
        for case in made.values():
            case.mend()
        yield made
    finally:
        for case in made.values():
            case.world.close()


@pytest.fixture(params=FAULTS, ids=lambda entry: f"{entry[0].__name__.lower()}-{entry[1]}")
def case(request, cases):
    request.node.world = cases[request.param].world  # its logs, if the test fails
    return cases[request.param]


def test_what_an_operator_has_to_mend_holds_the_destination_and_kills_nothing(case):
    words = case.fault.words
    status, body = case.ready
    assert status == 200 and words in body, body
    assert '"heldDestinationCount": 1' in body
    held = [entry for entry in case.relay.log() if entry["msg"].startswith("destination held")]
    assert len(held) == 1 and words in held[0]["reason"], held
    assert held[0]["kind"] == "misconfigured"
    assert len(case.relay.log()) < 30
    # For the circuit it is nothing.
    assert case.circuit == "closed"
    assert case.relay.metric("broker_circuit_transitions_total") == 0
    # All rows wait, and are charged with nothing but a channel that the broker closed.
    assert case.waiting > 0 and case.charged <= case.fault.in_flight
    assert fails([case.relay], "misconfigured") >= 11
    assert fails([case.relay], "transport") <= case.fault.in_flight
    assert all(delay <= 301 for delay in case.due)
    assert any(delay <= 30 for delay in case.due)
    assert case.probes <= case.probes_due


def test_what_was_held_goes_out_at_once_when_it_is_mended(case):
    pair, relay = case.pair, case.relay
    until(lambda: pair.published() > case.HEALTHY, PROBE_EVERY + 30, "a probe gets through")
    pair.settled(30)
    pair.check_all_sent(repeats_max=case.fault.in_flight)
    until(lambda: relay.metric("destinations_held") == 0, 10, "no longer held")
    assert '"heldDestinationCount": 0' in relay.get("/readyz")[1]
    lifted = [entry for entry in relay.log() if entry["msg"] == "destination no longer held"]
    assert len(lifted) == 1
    assert pair.outbox.states() == {"Processed": case.HEALTHY + case.WAITING}
    assert pair.published() == case.HEALTHY + case.WAITING
    assert relay.metric("dead_lettered_total") == 0
    assert relay.metric("broker_circuit_transitions_total") == 0
    assert relay.stop() == 0
    assert pair.leases() == 0
