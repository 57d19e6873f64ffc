"""The measurements of PostgreSQL and RabbitMQ. The sides of a pair take turns: A B A B ..."""

import collections
import time

from harness.checks import percentile
from harness.waiting import until

import machine
import pair_sides
import sides
from results import Result

STORE_BOUND = 0.75
CPU_BOUND = 0.6
HISTORY = 5_000_000
HISTORY_BYTES = 100  # so that many processed rows fit into memory: their number is what counts
HISTORY_NEEDS = 4 << 30
CHUNK = 25_000
MEGABYTE = 1e6


def rates_note(flows):
    rates = [flow.rate for flow in flows]
    return f"relay {min(rates):,.0f}-{max(rates):,.0f} messages/s"


def to_null(pair):
    """Nothing but the store is at work."""
    count = pair.bench.scaled(60_000)
    for keyed in (True, False):
        raws, relays = [], []
        for _ in range(pair.bench.pairs):
            raws.append(pair.raw_store(count, keyed))
            relays.append(pair.relay_fresh(count, "null:", keyed=keyed).flow)
        kind = "with" if keyed else "without"
        yield Result(f"PostgreSQL to null, rows {kind} ordering key: rate / ceiling",
                     [relay.rate / raw.rate for raw, relay in zip(raws, relays)],
                     at_least=STORE_BOUND, raw=[raw.rate for raw in raws], raw_unit=" rows/s",
                     notes=[rates_note(relays)])
        yield Result(f"PostgreSQL to null, rows {kind} ordering key: CPU a row / raw, with server",
                     [relay.cpu / raw.cpu for raw, relay in zip(raws, relays)],
                     raw=[raw.cpu * 1e6 for raw in raws], raw_unit=" us")


def ceiling(store, sink):
    """(the rate that neither side alone nor both together can exceed, what sets it)."""
    return min((store.rate, "store"), (sink.rate, "sink"),
               (machine.cores() / (store.cpu + sink.cpu), "CPU"))


def to_rabbitmq(pair):
    """Into a quorum queue; the raw side publishes the same events with the same library."""
    count = pair.bench.scaled(50_000)
    ceilings, bounds, relays, serials = [], [], [], []
    stores, sinks = [], []
    for _ in range(pair.bench.pairs):
        stores.append(pair.raw_store(count))
        sinks.append(pair.raw_publish(count))
        rate, bound = ceiling(stores[-1], sinks[-1])
        ceilings.append(rate)
        bounds.append(bound)
        for flows, settings in ((relays, {}), (serials, sides.SERIAL)):
            pair.empty_queue()
            flows.append(pair.relay_fresh(count, pair.broker_url(),
                                          {**pair_sides.EXCHANGE, **settings}).flow)
    bound = collections.Counter(bounds).most_common(1)[0][0]
    yield Result(f"PostgreSQL to RabbitMQ: rate / ceiling ({bound}-bound)",
                 [relay.rate / most for relay, most in zip(relays, ceilings)],
                 at_least=CPU_BOUND if bound == "CPU" else STORE_BOUND, raw=ceilings,
                 raw_unit=" messages/s", notes=[rates_note(relays), sides_note(stores, sinks)])
    yield Result("PostgreSQL to RabbitMQ: CPU a message / raw, with servers",
                 [relay.cpu / (store.cpu + sink.cpu)
                  for relay, store, sink in zip(relays, stores, sinks)],
                 raw=[(store.cpu + sink.cpu) * 1e6 for store, sink in zip(stores, sinks)],
                 raw_unit=" us")
    yield Result("PostgreSQL to RabbitMQ: pipelined / serial",
                 [relay.rate / serial.rate for relay, serial in zip(relays, serials)],
                 at_least=1.15, raw=[serial.rate for serial in serials], raw_unit=" messages/s")


def sides_note(stores, sinks):
    texts = []
    for name, flows in (("raw store", stores), ("raw publish", sinks)):
        rates = [flow.rate for flow in flows]
        costs = [flow.cpu * 1e6 for flow in flows]
        texts.append(f"{name} {min(rates):,.0f}-{max(rates):,.0f} messages/s at "
                     f"{min(costs):.0f}-{max(costs):.0f} us of processor time")
    return "; ".join(texts)


def raw_round_trips(pair, count):
    """(times from publish to confirm, median time from the consumer's arrival to the confirm)."""
    pair.empty_queue()
    tools, port = pair.bench.tools, pair.servers.rabbitmq().port
    with tools.consumer(port, count) as consumer:
        sent = tools.record("raw-rabbitmq", port=port, events=pair.bench.events.path, count=count,
                            rate=sides.PACE)
        arrived = consumer.arrived()
    back = [end - arrived[name] for name, (_, end) in sent.items()]
    return [end - begin for begin, end in sent.values()], percentile(back, 0.5)


def relay_lags(pair, count, back):
    """From the application's commit to when the relay had RabbitMQ's confirm. What lies between a
    message's arrival and its confirm is taken from the raw side."""
    pair.empty_queue()
    outbox = pair.stock.empty()
    outbox.notify()
    tools, port = pair.bench.tools, pair.servers.rabbitmq().port
    relay = sides.new_relay(pair.bench.folder, outbox, pair.broker_url(), pair_sides.EXCHANGE)
    with tools.consumer(port, count) as consumer:
        try:
            relay.start()
            committed = tools.record(
                "pg-application", url=outbox.url, events=pair.bench.events.path, commits=count,
                period_us=1_000_000 // sides.PACE)
            arrived = consumer.arrived()
            relay.stop()
        finally:
            relay.close()
    pair.stock.discard(outbox)
    return [arrived[name] + back - end for name, (_, end) in committed.items()]


def latency(pair):
    """At 200 rows a second, one row a transaction, with the trigger that tells of new rows."""
    count = 8 * sides.PACE
    raws, relays = [], []
    for _ in range(pair.bench.pairs):
        times, back = raw_round_trips(pair, count)
        raws.append(times)
        relays.append(relay_lags(pair, count, back))
    for name, share, most in (("p50", 0.5, 5), ("p99", 0.99, 8)):
        raw = [percentile(times, share) for times in raws]
        relay = [percentile(times, share) for times in relays]
        yield Result(f"PostgreSQL (LISTEN) to RabbitMQ: commit to confirm {name} / raw publish "
                     f"{name}, {sides.PACE} rows/s",
                     [late / base for late, base in zip(relay, raw)], at_most=most,
                     raw=[base * 1e3 for base in raw], raw_unit=" ms",
                     notes=[f"relay {min(relay) * 1e3:.2f}-{max(relay) * 1e3:.2f} ms"])


def history(pair):
    """Five million processed rows stand in the table already."""
    if machine.free_memory() < HISTORY_NEEDS:
        raise RuntimeError("there are less than 4 GiB of memory for its data")
    count = pair.bench.scaled(60_000)
    old = pair.stock.empty()
    old.fill_processed(HISTORY, HISTORY_BYTES)
    fresh, aged = [], []
    for number in range(pair.bench.pairs):
        fresh.append(pair.relay_fresh(count, "null:").flow)
        old.fill(count, prefix=f"new-{number}")
        aged.append(pair.relay(old, "null:").flow)
    pair.stock.discard(old)
    yield Result("PostgreSQL to null: rate with 5M processed rows / without",
                 [late.rate / early.rate for early, late in zip(fresh, aged)], at_least=0.7,
                 raw=[flow.rate for flow in fresh], raw_unit=" rows/s", notes=[rates_note(aged)])


def snapshot(pair):
    """A transaction older than all that the relay does keeps old row versions from being cleaned
    up."""
    count = 8 * CHUNK
    firsts, lasts = [], []
    for _ in range(pair.bench.pairs):
        outbox = pair.stock.filled(count)
        with outbox.session() as reader:
            reader.ask("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bench_events")
            drained = pair.relay(outbox, "null:")
        firsts.append(drained.rate_of_first(CHUNK))
        lasts.append(drained.rate_of_last(CHUNK))
        pair.stock.discard(outbox)
    yield Result("PostgreSQL to null under a long transaction: last 25k of 200k rows / first",
                 [last / first for first, last in zip(firsts, lasts)], at_least=0.7, raw=firsts,
                 raw_unit=" rows/s")


def idle(pair):
    """Both are connected, one event was sent, nothing is left to do."""
    pair.empty_queue()
    outbox = pair.stock.empty()
    outbox.notify()
    relay = sides.new_relay(pair.bench.folder, outbox, pair.broker_url(), pair_sides.EXCHANGE)
    try:
        relay.start()
        outbox.fill(1)
        until(outbox.all_processed, 10, "the row is processed")
        time.sleep(3)  # what belongs to the event has come to rest
        began, before = time.monotonic(), machine.cpu_seconds(relay.pid)
        time.sleep(30)
        cpu = (machine.cpu_seconds(relay.pid) - before) / (time.monotonic() - began)
        pair.idle_memory = relay.memory()
        relay.stop()
    finally:
        relay.close()
    pair.stock.discard(outbox)
    yield Result("PostgreSQL and RabbitMQ, idle: CPU over 30 s", [cpu * 100],
                 unit=" % of a core", at_most=0.5)
    yield Result("PostgreSQL and RabbitMQ, idle: resident memory",
                 [pair.idle_memory / MEGABYTE], unit=" MB", at_most=24)


def memory(pair):
    """From what the measurements before it have seen."""
    if pair.idle_memory is None or not pair.memory_peaks:
        return
    allowed = (3 * sides.BATCH * pair.bench.events.mean_bytes + 8 * MEGABYTE) / MEGABYTE
    yield Result("PostgreSQL and RabbitMQ: memory under load, most - idle",
                 [(max(pair.memory_peaks) - pair.idle_memory) / MEGABYTE], unit=" MB",
                 at_most=allowed)


ALL = {"postgres-null": to_null, "postgres-rabbitmq": to_rabbitmq, "postgres-latency": latency,
       "postgres-history": history, "postgres-snapshot": snapshot, "postgres-idle": idle,
       "postgres-memory": memory}
