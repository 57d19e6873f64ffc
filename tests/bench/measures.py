"""Each measurement as a generator of results. The sides of a pair take turns: A B A B ..."""

import os
import time

from harness.checks import percentile
from harness.waiting import until

import machine
import outboxes
import sides
from results import Result
from sides import BATCH, PACE, SERIAL

CONNECTIONS = 4
MEGABYTE = 1e6


class Bench:
    """What all measurements share."""

    def __init__(self, folder, tools, events, pairs):
        self.folder = folder
        self.tools = tools
        self.events = events
        self.stock = outboxes.Stock(folder, events)
        self.pairs = pairs
        self.idle_memory = None
        self.memory_peaks = []

    def scaled(self, count):
        """So many rows of 1 KB; fewer if the events are larger."""
        return max(2000, int(count / max(1.0, self.events.mean_bytes / 1100)))

    def raw_store(self, count, keyed=True):
        outbox = self.stock.filled(count, keyed)
        flow = self.tools.flow("raw-store", database=outbox.path, batch=BATCH)
        outboxes.discard(outbox)
        return flow

    def raw_http(self, receiver, count):
        """(flow, the share of a core that the receiver took); receiver's cost included."""
        before, began = receiver.cpu_seconds(), time.monotonic()
        flow = self.tools.flow("raw-http", port=receiver.port, events=self.events.path,
                               count=count, connections=CONNECTIONS)
        used, elapsed = receiver.cpu_seconds() - before, time.monotonic() - began
        flow.cpu += used / count
        return flow, used / elapsed

    def relay(self, outbox, broker_url, settings=None):
        flow = sides.drain(self.folder, outbox, broker_url, settings)
        self.memory_peaks.append(flow.memory_peak)
        return flow

    def relay_fresh(self, count, broker_url, settings=None, keyed=True):
        outbox = self.stock.filled(count, keyed)
        flow = self.relay(outbox, broker_url, settings)
        outboxes.discard(outbox)
        return flow


def to_null(bench):
    """Nothing but the store is at work."""
    count = bench.scaled(100_000)
    for keyed in (True, False):
        raws, relays = [], []
        for _ in range(bench.pairs):
            raws.append(bench.raw_store(count, keyed))
            relays.append(bench.relay_fresh(count, "null:", keyed=keyed))
        kind = "with" if keyed else "without"
        ratios = [relay.rate / raw.rate for raw, relay in zip(raws, relays)]
        yield Result(f"SQLite to null, rows {kind} ordering key: rate / ceiling", ratios,
                     at_least=0.75, raw=[raw.rate for raw in raws], raw_unit=" rows/s",
                     notes=[rates_note(relays)])
        yield Result(f"SQLite to null, rows {kind} ordering key: CPU a row / raw",
                     [relay.cpu / raw.cpu for raw, relay in zip(raws, relays)],
                     raw=[raw.cpu * 1e6 for raw in raws], raw_unit=" us")


def rates_note(relays):
    rates = [relay.rate for relay in relays]
    return f"relay {min(rates):,.0f}-{max(rates):,.0f} messages/s"


def to_http(bench):
    """A lean receiver on loopback; the raw side posts the same events with the same library."""
    count = bench.scaled(40_000)
    stores, sinks, shares, relays, serials = [], [], [], [], []
    with bench.tools.receiver() as receiver:
        limit = bench.tools.flow("flood", port=receiver.port, events=bench.events.path,
                                 count=2 * count, connections=CONNECTIONS).rate
        for _ in range(bench.pairs):
            stores.append(bench.raw_store(count))
            sink, share = bench.raw_http(receiver, count)
            sinks.append(sink)
            shares.append(share)
            relays.append(bench.relay_fresh(count, receiver.url))
            serials.append(bench.relay_fresh(count, receiver.url, SERIAL))
    ceilings = [min(store.rate, sink.rate, machine.cores() / (store.cpu + sink.cpu))
                for store, sink in zip(stores, sinks)]
    notes = [rates_note(relays),
             f"the receiver answers a leaner client {limit:,.0f} times/s, and took at most "
             f"{max(shares):.0%} of a core beside the raw side"]
    if limit < 1.2 * max(ceilings) or max(shares) > 0.85:
        notes.append("the receiver may have been the bottleneck")
    yield Result("SQLite to HTTP: rate / ceiling",
                 [relay.rate / ceiling for relay, ceiling in zip(relays, ceilings)],
                 at_least=0.6, raw=ceilings, raw_unit=" messages/s", notes=notes)
    yield Result("SQLite to HTTP: pipelined / serial",
                 [relay.rate / serial.rate for relay, serial in zip(relays, serials)],
                 at_least=1.15, raw=[serial.rate for serial in serials], raw_unit=" messages/s")


def raw_round_trips(bench, count):
    """(times of requests, median time from the receiver's answer to the client's return)."""
    with bench.tools.receiver(record=True) as receiver:
        sent = bench.tools.record("raw-http", port=receiver.port, events=bench.events.path,
                                  count=count, connections=1, rate=PACE)
        receiver.close()
        answered = receiver.answered()
    back = [end - answered[name] for name, (_, end) in sent.items()]
    return [end - begin for begin, end in sent.values()], percentile(back, 0.5)


def relay_lags(bench, count, back):
    """From the application's commit to when the relay had the receiver's answer. The answer's way
    back is taken from the raw side."""
    outbox = bench.stock.empty()
    with bench.tools.receiver(record=True) as receiver:
        relay = sides.new_relay(bench.folder, outbox, receiver.url)
        try:
            relay.start()
            committed = bench.tools.record(
                "application", database=outbox.path, events=bench.events.path, commits=count,
                period_us=1_000_000 // PACE)
            until(outbox.all_processed, 30, "all rows processed")
            relay.stop()
        finally:
            relay.close()
        receiver.close()
        answered = receiver.answered()
    outboxes.discard(outbox)
    return [answered[name] + back - end for name, (_, end) in committed.items()]


def latency(bench):
    """At 200 rows a second, one row a transaction."""
    count = 8 * PACE
    raws, relays = [], []
    for _ in range(bench.pairs):
        times, back = raw_round_trips(bench, count)
        raws.append(times)
        relays.append(relay_lags(bench, count, back))
    for name, share, most in (("p50", 0.5, 5), ("p99", 0.99, 8)):
        raw = [percentile(times, share) for times in raws]
        relay = [percentile(times, share) for times in relays]
        yield Result(f"commit to acknowledgement {name} / raw publish {name}, {PACE} rows/s",
                     [late / base for late, base in zip(relay, raw)], at_most=most,
                     raw=[base * 1e3 for base in raw], raw_unit=" ms",
                     notes=[f"relay {min(relay) * 1e3:.2f}-{max(relay) * 1e3:.2f} ms"])


def history(bench):
    """A million processed rows stand in the table already."""
    count = bench.scaled(60_000)
    old = bench.stock.empty()
    outboxes.insert(old, processed_rows(1_000_000))
    fresh, aged = [], []
    for number in range(bench.pairs):
        fresh.append(bench.relay_fresh(count, "null:"))
        outboxes.insert(old, bench.events.rows(count, f"new-{number}"))
        aged.append(bench.relay(old, "null:"))
    outboxes.discard(old)
    yield Result("SQLite to null: rate with 1M processed rows / without",
                 [late.rate / early.rate for early, late in zip(fresh, aged)], at_least=0.7,
                 raw=[flow.rate for flow in fresh], raw_unit=" rows/s", notes=[rates_note(aged)])


def processed_rows(count):
    """Of 1 KB always: a million large ones would not fit into memory."""
    payload = b"x" * outboxes.GENERATED_BYTES
    return ((f"old-{number:020}", "asset.created", None, "Processed", payload)
            for number in range(count))


def commit_times(bench, outbox):
    record = bench.tools.record("application", database=outbox.path, events=bench.events.path,
                                commits=1500, rows_per_commit=10, period_us=2000)
    return [end - begin for begin, end in record.values()]


def commit_times_beside_relay(bench, outbox):
    """(times, whether the relay was busy to the end)."""
    relay = sides.new_relay(bench.folder, outbox, "null:")
    try:
        relay.start()
        times = commit_times(bench, outbox)
        busy = outbox.value("SELECT count(*) FROM outbox_messages WHERE status = 'Pending'") > 1000
        relay.kill()
    finally:
        relay.close()
    return times, busy


def application(bench):
    """Ten rows each 2 ms, while the relay works a backlog off as fast as it can."""
    count = bench.scaled(300_000)
    alone, beside, all_busy = [], [], True
    for _ in range(bench.pairs):
        outbox = bench.stock.filled(count)
        alone.append(percentile(commit_times(bench, outbox), 0.99))
        outboxes.discard(outbox)
        outbox = bench.stock.filled(count)
        times, busy = commit_times_beside_relay(bench, outbox)
        outboxes.discard(outbox)
        beside.append(percentile(times, 0.99))
        all_busy = all_busy and busy
    notes = [f"p99 beside the relay {min(beside) * 1e3:.2f}-{max(beside) * 1e3:.2f} ms"]
    if not all_busy:
        notes.append("the relay had no work left before the application's end")
    yield Result("the application's p99 commit beside the relay - 2 x alone",
                 [(late - 2 * base) * 1e3 for base, late in zip(alone, beside)], unit=" ms",
                 at_most=5, raw=[base * 1e3 for base in alone], raw_unit=" ms", notes=notes)


def idle(bench):
    """Everything is up, one event was sent, nothing is left to do."""
    outbox = bench.stock.empty()
    with bench.tools.receiver() as receiver:
        relay = sides.new_relay(bench.folder, outbox, receiver.url)
        try:
            relay.start()
            outbox.insert()
            until(outbox.all_processed, 10, "the row is processed")
            time.sleep(3)  # what belongs to the event has come to rest
            began, before = time.monotonic(), machine.cpu_seconds(relay.pid)
            time.sleep(30)
            cpu = (machine.cpu_seconds(relay.pid) - before) / (time.monotonic() - began)
            memory = relay.memory()
            relay.stop()
        finally:
            relay.close()
        starts = [sides.start_to_ready(bench.folder, outbox, receiver.url) for _ in range(7)]
    bench.idle_memory = memory
    yield Result("idle: CPU over 30 s", [cpu * 100], unit=" % of a core", at_most=0.1)
    yield Result("idle: resident memory", [memory / MEGABYTE], unit=" MB", at_most=16)
    yield Result("process start to ready", [took * 1e3 for took in starts], unit=" ms",
                 at_most=100)


def memory(bench):
    """From what the measurements before it have seen."""
    if bench.idle_memory is None or not bench.memory_peaks:
        return
    allowed = (3 * BATCH * bench.events.mean_bytes + 8 * MEGABYTE) / MEGABYTE
    yield Result("memory under load, most - idle",
                 [(max(bench.memory_peaks) - bench.idle_memory) / MEGABYTE], unit=" MB",
                 at_most=allowed)


ALL = {"null": to_null, "http": to_http, "latency": latency, "history": history,
       "application": application, "idle": idle, "memory": memory}
